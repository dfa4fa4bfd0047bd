import pytest
from solders.transaction_status import InstructionErrorFieldless, TransactionErrorFieldless

from solward_localnet.landing import error_text


@pytest.mark.parametrize(
    ("err", "text"),
    [
        ("BlockhashNotFound", "Blockhash not found"),
        ("AlreadyProcessed", "This transaction has already been processed"),
        (
            {"InstructionError": [2, {"Custom": 6001}]},
            "Error processing Instruction 2: custom program error: 0x1771",
        ),
        (
            {"InstructionError": [0, "MissingRequiredSignature"]},
            "Error processing Instruction 0: missing required signature for instruction",
        ),
        (
            {"InstructionError": [0, {"BorshIoError": "Unknown"}]},
            "Error processing Instruction 0: Borsh io error: Unknown",
        ),
        (
            {"InsufficientFundsForRent": {"account_index": 1}},
            "Transaction results in an account (1) with insufficient funds for rent",
        ),
        (
            {"DuplicateInstruction": 3},
            "Transaction contains a duplicate instruction (3) that is not allowed",
        ),
        (
            {"ProgramExecutionTemporarilyRestricted": {"account_index": 4}},
            "Execution of the program referenced by account at index 4 is temporarily restricted.",
        ),
        ({"SomethingNew": 1}, "Something new"),
        ("SomethingNew", "Something new"),
    ],
)
def test_errors_are_told_in_the_words_of_agave(err: object, text: str) -> None:
    assert error_text(err) == text


def test_every_error_without_fields_has_words() -> None:
    for name in dir(TransactionErrorFieldless):
        if name[0].isupper():
            assert error_text(name)
    for name in dir(InstructionErrorFieldless):
        if name[0].isupper():
            assert error_text({"InstructionError": [0, name]}).startswith("Error processing")
