"""A network between regions on one machine: `python link.py 7301:7101 7302:7102` relays each first port to the second.

Stop it and the regions are cut off from each other; start it again and the link is healed.
"""

import asyncio
import sys


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def relay(port: int, target: int) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    return await asyncio.start_server(connected, "127.0.0.1", port)


async def main(pairs: list[str]) -> None:
    ports = [pair.split(":") for pair in pairs]
    servers = [await relay(int(port), int(target)) for port, target in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
