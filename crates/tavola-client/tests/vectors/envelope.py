"""The envelope of docs/encryption.md, written and read by another library than ours.

Prints the vector that src/crypt/tests.rs holds: python3 envelope.py (needs `cryptography` from pip).
"""

import struct

from cryptography.hazmat.primitives import hashes, hmac, keywrap
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEK = bytes(range(32))
CONTENT_KEY = bytes(range(100, 132))
PK, RK = "Sales", "empid_000212"
PROPERTIES = [
    ("Text", 1, "Grüße".encode()),
    ("Int32", 2, struct.pack(">i", -2)),
    ("Int64", 3, struct.pack(">q", 1 << 40)),
    ("Double", 4, struct.pack(">d", 1.5)),
    ("Boolean", 5, b"\x01"),
    # 2014-08-22T00:50:32Z in ticks of 100 ns since 1601.
    ("DateTime", 6, struct.pack(">Q", (1_408_668_632 + 11_644_473_600) * 10_000_000)),
    ("Guid", 7, bytes.fromhex("c9da6455213d42c99a793e9149a57833")),
    ("Binary", 8, b"\x00\xff"),
]


def lp(data):
    return struct.pack(">I", len(data)) + data


def derived(content_key, purpose):
    return HKDF(hashes.SHA256(), 32, salt=None, info=purpose).derive(content_key)


def place():
    return lp(PK.encode()) + lp(RK.encode())


def aad(name, edm):
    return b"\x01" + place() + lp(name.encode()) + bytes([edm])


def code(content_key, head):
    mac = hmac.HMAC(derived(content_key, b"tavola mac 1"), hashes.SHA256())
    mac.update(head + place())
    return mac.finalize()


def write():
    values = {}
    for number, (name, edm, plain) in enumerate(PROPERTIES):
        nonce = bytes([number]) * 12
        cipher = AESGCM(derived(CONTENT_KEY, b"tavola enc 1"))
        values[name] = nonce + cipher.encrypt(nonce, plain, aad(name, edm))
    wrapped = keywrap.aes_key_wrap(KEK, CONTENT_KEY)
    head = b"\x01\x01\x01" + bytes([len(b"2026-11")]) + b"2026-11"
    head += struct.pack(">H", len(wrapped)) + wrapped + bytes([len(PROPERTIES)])
    for name, edm, _ in PROPERTIES:
        head += bytes([edm]) + struct.pack(">H", len(name.encode())) + name.encode()
    return values, head + code(CONTENT_KEY, head)


def read(values, envelope):
    assert envelope[:3] == b"\x01\x01\x01"
    at = 4 + envelope[3]
    length = struct.unpack(">H", envelope[at : at + 2])[0]
    content_key = keywrap.aes_key_unwrap(KEK, envelope[at + 2 : at + 2 + length])
    assert envelope[-32:] == code(content_key, envelope[:-32])
    at += 2 + length
    count, at = envelope[at], at + 1
    plain = []
    for _ in range(count):
        edm, length = envelope[at], struct.unpack(">H", envelope[at + 1 : at + 3])[0]
        name = envelope[at + 3 : at + 3 + length].decode()
        at += 3 + length
        sealed = values[name]
        cipher = AESGCM(derived(content_key, b"tavola enc 1"))
        plain.append((name, edm, cipher.decrypt(sealed[:12], sealed[12:], aad(name, edm))))
    return plain


if __name__ == "__main__":
    values, envelope = write()
    assert read(values, envelope) == PROPERTIES
    for name, sealed in values.items():
        print(name, sealed.hex())
    print("tv_enc", envelope.hex())
