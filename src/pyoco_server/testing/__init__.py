"""Tests of flows that wait: `run_flow` executes a flow in the test, with answers, signals and events."""

from pyoco_server.testing.flow_runner import FlowResult, run_flow
from pyoco_server.testing.scripted_answers import EXPIRE, AnswerRefused, AskedQuestion, UnansweredQuestion

__all__ = ["EXPIRE", "AnswerRefused", "AskedQuestion", "FlowResult", "UnansweredQuestion", "run_flow"]
