import SIPGrammar
import Timekeeping

/// A challenge's nonce: when it was made, its number, and a code that only this process can make.
///
/// So none has to be remembered before it is answered, and none survives a restart (RFC 7616 section 3.3).
struct Nonce {
    let serial: UInt64
    let issued: Instant

    private static let codeLength = 16

    /// In lower-case hexadecimal.
    func text(_ functions: DigestFunctions) -> ByteString {
        ByteString(Hex.encode(body + functions.code(body).prefix(Self.codeLength)))
    }

    init(serial: UInt64, issued: Instant) {
        self.serial = serial
        self.issued = issued
    }

    /// - Returns: `nil` when this process has not made it.
    init?(_ text: ByteString, _ functions: DigestFunctions) {
        guard text.count == (16 + Self.codeLength) * 2, let bytes = Hex.decode(text) else { return nil }
        serial = Self.number(bytes[0..<8])
        issued = Instant(nanoseconds: Int64(bitPattern: Self.number(bytes[8..<16])))
        let code = Array(functions.code(Array(bytes[0..<16])).prefix(Self.codeLength))
        guard equalInConstantTime(code, ByteString(bytes[16...])) else { return nil }
    }

    private var body: [UInt8] {
        let parts = [serial, UInt64(bitPattern: issued.nanoseconds)]
        return parts.flatMap { part in
            stride(from: UInt64(56), through: 0, by: -8).map { UInt8(truncatingIfNeeded: part >> $0) }
        }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// Remembers how far each answered nonce has been counted, so that no answer is good twice.
///
/// Bounded: two generations of entries, of which the older one is dropped when the newer is half the limit or one
/// lifetime old. A nonce that may have been dropped is refused as stale.
struct NonceLedger {
    private struct Use {
        var count: UInt32
        /// Of the request that was let through with that count.
        var fingerprint: Int
    }

    private struct Generation {
        var uses: [UInt64: Use] = [:]
        var lastSerial: UInt64 = 0
    }

    private let limit: Int
    private let lifetime: Duration
    private var current = Generation()
    private var previous = Generation()
    /// When the current generation was begun.
    private var began: Instant?
    /// Nonces up to this number that are not in a generation may have been used.
    private var forgotten: UInt64 = 0

    init(limit: Int, lifetime: Duration) {
        self.limit = limit
        self.lifetime = lifetime
    }

    var count: Int { current.uses.count + previous.uses.count }

    /// Whether a request with that nonce count may pass; if so, the count is used up.
    ///
    /// The same count passes again for the same `fingerprint`: a retransmission.
    mutating func admit(_ serial: UInt64, count: UInt32, fingerprint: Int, now: Instant) -> Bool {
        rotate(now: now)
        if let use = current.uses[serial] ?? previous.uses[serial] {
            if use.count == count, use.fingerprint == fingerprint { return true }
            guard count > use.count else { return false }
        } else if serial <= forgotten {
            return false
        }
        previous.uses[serial] = nil
        current.uses[serial] = Use(count: count, fingerprint: fingerprint)
        current.lastSerial = max(current.lastSerial, serial)
        return true
    }

    private mutating func rotate(now: Instant) {
        let isOld = began.map { now - $0 >= lifetime } ?? true
        guard isOld || current.uses.count >= max(1, limit / 2) else { return }
        forgotten = max(forgotten, previous.lastSerial)
        previous = current
        current = Generation()
        began = now
    }
}
