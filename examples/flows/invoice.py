"""An invoice that a person approves, edits or rejects before it is paid.

    read_invoice --> approve --> settle

`approve` waits: the run costs nothing until somebody answers, and goes on from there whatever was restarted
meanwhile. See what it asks with `pyoco-client waits`, and answer with `pyoco-client resume RUN_ID`.
"""

from typing import Any

from pydantic import BaseModel, Field
from pyoco import Flow, task


class Payment(BaseModel):
    """What the person may change."""

    amount: float = Field(gt=0, le=10_000, description="in EUR")
    account: str = Field(pattern=r"^\d{4}$", description="the account that it is booked to")


@task
def read_invoice(number: int = 2041) -> dict[str, Any]:
    print(f"reading invoice {number}")
    return {"number": number, "supplier": "Blue Bottle Ltd", "amount": 1250.0, "account": "4930"}


@task
def approve(ctx: Any, read_invoice: dict[str, Any]) -> dict[str, Any]:
    invoice = read_invoice
    answer = ctx.human(
        f"Invoice {invoice['number']} of {invoice['supplier']}: is this payment right?",
        schema=Payment,
        proposal={"amount": invoice["amount"], "account": invoice["account"]},
    )
    payment = answer["value"]
    return {**answer, "value": payment and payment.model_dump()}


@task
def settle(approve: dict[str, Any]) -> str:
    if approve["decision"] == "rejected":
        return f"not paid: {approve['note'] or 'rejected without a note'}"
    payment = approve["value"]
    print(f"paying {payment['amount']:.2f} EUR")
    return f"paid {payment['amount']:.2f} EUR, booked to {payment['account']} ({approve['decision']})"


invoice = Flow("invoice") >> read_invoice >> approve >> settle
