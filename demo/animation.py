"""Animated WebP images, assembled from still ones.

A WebP file is a RIFF container. An animation has one frame chunk per image, which holds the image's own data unchanged.
Container: https://developers.google.com/speed/webp/docs/riff_container.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["Frame", "animate", "frames_of"]

_ANIMATED = 0x02
_WHITE = 0xFFFFFFFF
_FOREVER = 0
#: Replace the canvas by the frame, without blending.
_REPLACE = 0x02
#: Chunks of an image that belong into a frame.
_DATA = (b"ALPH", b"VP8 ", b"VP8L")


class Frame(NamedTuple):
    """A still WebP image and the time that it is shown."""

    image: bytes
    duration_ms: int


def animate(frames: Sequence[Frame], width: int, height: int) -> bytes:
    """Return an animation of still images of one size, repeated for ever."""
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = _chunk(b"VP8X", bytes([_ANIMATED, 0, 0, 0]) + size) + _chunk(b"ANIM", struct.pack("<IH", _WHITE, _FOREVER))
    for frame in frames:
        head = bytes(6) + size + frame.duration_ms.to_bytes(3, "little") + bytes([_REPLACE])
        data = b"".join(_chunk(name, content) for name, content in _chunks(frame.image) if name in _DATA)
        body += _chunk(b"ANMF", head + data)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def frames_of(animation: bytes) -> list[int]:
    """Return the durations of the frames of an animation, milliseconds."""
    found = [content for name, content in _chunks(animation) if name == b"ANMF"]
    return [int.from_bytes(content[12:15], "little") for content in found]


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def _chunks(image: bytes) -> Iterator[tuple[bytes, bytes]]:
    if image[:4] != b"RIFF" or image[8:12] != b"WEBP":
        raise ValueError("this is not a WebP image")
    at = 12
    while at + 8 <= len(image):
        length = struct.unpack_from("<I", image, at + 4)[0]
        yield image[at : at + 4], image[at + 8 : at + 8 + length]
        at += 8 + length + length % 2
