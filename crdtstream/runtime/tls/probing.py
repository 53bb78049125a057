"""Why a TLS peer cannot be reached: gRPC says only that the connection was closed, so a handshake is made to learn the
reason.
"""

from __future__ import annotations

import asyncio
import ssl

from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.runtime.tls.port import reason_of

PROBE_S = 2.0
# How long a peer takes to refuse a certificate after the handshake, which has ended for the side that shows it.
REFUSAL_S = 1.0
REFUSED = (
    "the peer closes the connection when it is shown the certificate of this region: let an authority sign it that the"
    " peer has as tls-authority; the log of the peer says more"
)


async def objection(certificates: Certificates, host: str, port: int) -> str:
    """What is wrong with one of the two certificates; empty if nothing is, or nobody answers."""
    context = certificates.client_context()
    context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(PROBE_S + REFUSAL_S):
            return await _refusal(context, host, port)
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of the peer is refused: {error.verify_message}"
    except ssl.SSLError as error:
        return f"the peer refused the certificate of this region: {reason_of(error)}"
    except (OSError, TimeoutError):
        return ""


async def _refusal(context: ssl.SSLContext, host: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        async with asyncio.timeout(REFUSAL_S):
            # A peer that takes the certificate begins with its settings of HTTP/2; gRPC sends no alert if it does not.
            return "" if await reader.read(1) else REFUSED
    except ConnectionError:
        return REFUSED
    except TimeoutError:
        return ""
    finally:
        writer.transport.abort()
