"""Mail through the SMTP server of the operator (`PYOCO_SMTP_HOST`)."""

import asyncio
import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate

from pyoco_server.config import NatsBackendConfig


class MailSender:
    def __init__(self, config: NatsBackendConfig) -> None:
        self._config = config

    @property
    def is_configured(self) -> bool:
        return bool(self._config.smtp_host)

    async def send(self, to: Sequence[str], message_id: str, subject: str, lines: Sequence[str]) -> str:
        """Why it was not sent; empty: the server has accepted it."""
        if not self.is_configured:
            return "this gateway cannot send mail: PYOCO_SMTP_HOST is not set"
        message = EmailMessage()
        message["From"] = self._config.smtp_from or f"pyoco-server@{self._config.smtp_host}"
        message["To"] = ", ".join(to)
        message["Subject"] = subject
        message["Date"] = formatdate()
        # The same for a repetition: mail programs show it once.
        message["Message-ID"] = f"<{message_id}@pyoco-server>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content("\n".join([f"{subject}", "", *lines, ""]))
        try:
            await asyncio.to_thread(self._send, message)
        except smtplib.SMTPResponseException as error:
            return f"the mail server answered with {error.smtp_code}"
        except (smtplib.SMTPException, OSError) as error:
            # Without its text, which may contain what was sent.
            return f"the mail server did not take it: {type(error).__name__}"
        return ""

    def _send(self, message: EmailMessage) -> None:
        config = self._config
        timeout_sec = config.notify_timeout_sec
        server: smtplib.SMTP
        if config.smtp_security == "tls":
            context = ssl.create_default_context()
            server = smtplib.SMTP_SSL(
                config.smtp_host, config.smtp_port, timeout=timeout_sec, context=context
            )
        else:
            server = smtplib.SMTP(config.smtp_host, config.smtp_port, timeout=timeout_sec)
        with server:
            if config.smtp_security == "starttls":
                server.starttls(context=ssl.create_default_context())
            if config.smtp_user:
                server.login(config.smtp_user, config.smtp_password)
            server.send_message(message)
