"""Backup and restore of a SOLWARD_HOME, with everything its wallets need, as one encrypted file."""

from solward.backup.archive import Manifest
from solward.backup.create import create_backup
from solward.backup.restore import restore_backup, verify_backup

__all__ = ["Manifest", "create_backup", "restore_backup", "verify_backup"]
