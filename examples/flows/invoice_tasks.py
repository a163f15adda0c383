"""Plain functions that invoice_approval.yaml names; there is no flow in this file."""

from typing import Any


def propose(invoice: dict[str, Any]) -> dict[str, Any]:
    return {
        "message": f"Invoice {invoice['number']} of {invoice['supplier']}: is this payment right?",
        "payment": {"amount": invoice["amount"], "account": invoice["account"]},
    }


def send_back(note: str | None) -> str:
    return f"sent back to the supplier: {note or 'please check it'}"
