"""What the journal stream holds, seen from outside."""

from tests.support.running.gateway import RunningGateway


async def journalled_runs(gateway: RunningGateway) -> set[str]:
    """Every run that has anything in the journal."""
    context = gateway.inside.connection.client.jetstream()
    info = await context.stream_info(gateway.inside.config.journal_stream, subjects_filter=">")
    return {subject.rpartition(".")[2] for subject in info.state.subjects or {}}
