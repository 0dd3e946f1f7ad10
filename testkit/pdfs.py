"""Small handwritten PDFs, valid and malicious."""

from __future__ import annotations

import zlib


def pdf(
    *pages: str, title: str = "", packed: bytes | None = None, encrypted: bool = False
) -> bytes:
    """A PDF with a line of text for each line of each page; `packed` takes the place of the first page's content."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, page in enumerate(pages):
        lines = " ".join(f"({_escaped(line)}) Tj 0 -14 Td" for line in page.split("\n"))
        content = f"BT /F1 12 Tf 72 720 Td {lines} ET".encode("latin-1")
        text = ""
        if packed is not None and not n:
            content, text = packed, "/Filter /FlateDecode "
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(
            f"<< {text}/Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"
        )
    objects.append(f"<< /Title ({_escaped(title)}) >>".encode("latin-1"))
    out, places = b"%PDF-1.4\n", []
    for n, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{n} 0 obj\n".encode() + body + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    lock = (
        f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'41' * 32}> /U <{'42' * 32}> >> /ID [<00> <00>] "
        * encrypted
    )
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {lock}/Info {len(objects)} 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def bomb(size: int) -> bytes:
    """A page whose content is a few kilobytes, and unpacks to `size` bytes."""
    piece = b"BT (a) Tj ET\n" * (1 << 16)
    count = size // len(piece)
    checksum = 1
    for _ in range(count):
        checksum = zlib.adler32(piece, checksum)
    # After a full flush, equal pieces compress to equal bytes, so one piece is compressed and repeated.
    maker = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    compressed = maker.compress(piece) + maker.flush(zlib.Z_FULL_FLUSH)
    packed = b"\x78\xda" + compressed * count + maker.flush() + checksum.to_bytes(4, "big")
    return pdf("x", packed=packed)


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
