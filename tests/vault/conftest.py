from tests.support.engine import bench

__all__ = ["bench"]
