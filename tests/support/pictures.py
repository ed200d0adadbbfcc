"""Pictures of the pages for the documents: taken in a browser, compared with a tolerance, several as one that moves."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Final

from tests.support.browser import Page

__all__ = ["MOST_BYTES", "animated", "differing", "first_frame", "photo"]

MOST_BYTES: Final = 300_000
"""The largest picture that the repository holds."""

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_COMPARED = """(async ([one, other]) => {
  const pixels = async (data) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)); // the page loads no data: addresses
    const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [Math.ceil(image.width / 8), Math.ceil(image.height / 8)];
    const context = canvas.getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return [`${image.width}x${image.height}`, context.getImageData(0, 0, canvas.width, canvas.height).data];
  };
  const [[size, a], [formerly, b]] = [await pixels(one), await pixels(other)];
  if (size !== formerly) return 1;
  let found = 0;
  for (let i = 0; i < a.length; i += 4) found += [0, 1, 2].some((c) => Math.abs(a[i + c] - b[i + c]) > 40);
  return found / (a.length / 4);
})(DATA)"""


async def photo(page: Page, selector: str = "") -> bytes:
    """What is in view, or one element of it, as a PNG. What moves is still, and nothing is focused."""
    await page.ask("document.activeElement?.blur(); document.fonts.ready.then(() => true)")
    clip: dict[str, object] = {}
    if selector:
        box = await page.ask(
            f"(r => [r.left + scrollX, r.top + scrollY, r.width, r.height])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        clip = {
            "captureBeyondViewport": True,
            "clip": {**dict(zip(("x", "y", "width", "height"), box, strict=True)), "scale": 1},
        }
    found = await page.call("Page.captureScreenshot", format="png", **clip)
    return base64.b64decode(found["data"])


async def differing(page: Page, taken: bytes, kept: bytes) -> float:
    """The share of squares of 8 by 8 pixels whose colours differ by more than 40 of 255; 1 for another size."""
    data = [base64.b64encode(picture).decode() for picture in (taken, kept)]
    return float(await page.ask(_COMPARED.replace("DATA", json.dumps(data))))


def _chunks(picture: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], len(_SIGNATURE)
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        found.append((picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def animated(frames: Sequence[bytes], seconds: Sequence[float]) -> bytes:
    """PNGs of one size as one that moves, again and again (APNG); what shows none of it shows the first."""
    header = next(body for kind, body in _chunks(frames[0]) if kind == b"IHDR")
    width, height = struct.unpack(">II", header[:8])
    out = [_SIGNATURE, _chunk(b"IHDR", header), _chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    number = 0
    for i, (frame, length) in enumerate(zip(frames, seconds, strict=True)):
        body = b"".join(body for kind, body in _chunks(frame) if kind == b"IDAT")
        control = struct.pack(">IIIIIHHBB", number, width, height, 0, 0, round(length * 1000), 1000, 0, 0)
        out.append(_chunk(b"fcTL", control))
        out.append(_chunk(b"fdAT", struct.pack(">I", number + 1) + body) if i else _chunk(b"IDAT", body))
        number += 2 if i else 1
    return b"".join([*out, _chunk(b"IEND", b"")])


def first_frame(picture: bytes) -> bytes:
    """A picture that moves, as it stands still."""
    kept = [(kind, body) for kind, body in _chunks(picture) if kind in (b"IHDR", b"IDAT", b"IEND")]
    return _SIGNATURE + b"".join(_chunk(kind, body) for kind, body in kept)
