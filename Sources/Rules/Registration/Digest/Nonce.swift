package import Addressing
import Bytes
import Timekeeping

/// The peer for which a nonce is made. If a peer sends its nonce back, it has received the nonce, so its source address
/// is not forged (T8).
///
/// All trusted peers together are one holder, because the requests of one phone can come through several trusted peers.
package enum NonceHolder: Hashable, Sendable {
    case trusted
    /// The peer has the given IPv4 address, or an address in the given IPv6 /64, with any port.
    case source(IPAddress)
    /// The user got the nonce in a push, and may use the nonce from any address.
    case user(AddressOfRecord)
}

/// The nonce of a challenge or push: creation time, serial number, and a code for one ``NonceHolder`` that only this
/// process can compute.
///
/// The daemon stores nothing about a nonce until a phone uses it. After a restart, only nonces that bindings keep are
/// valid (``KeptNonce``). A nonce is short, so that a challenge to a forged source address is not much longer than the
/// request (T4.1).
struct Nonce {
    let serial: UInt64
    let issued: Instant
    let marks: Marks

    struct Marks: OptionSet {
        let rawValue: UInt64
        /// The nonce was sent in a push, so its holder is a user.
        static let isPushed = Marks(rawValue: 1 << 39)
        /// The nonce was sent to a client whose request had credentials with an older nonce.
        static let isForReuse = Marks(rawValue: 1 << 38)
    }

    private static let bodyLength = 10
    private static let codeLength = 11
    private static let part: UInt64 = 1 << 40
    /// The number of different serial numbers; a serial number has 38 bits, and the next two bits are flags.
    private static let serials: UInt64 = 1 << 38

    init(serial: UInt64, issued: Instant, _ marks: Marks = []) {
        self.serial = serial % Self.serials
        self.marks = marks
        let milliseconds = UInt64(max(0, issued.nanoseconds / 1_000_000))
        self.issued = Instant(nanoseconds: Int64(milliseconds % Self.part) * 1_000_000)
    }

    private init(_ body: ArraySlice<UInt8>) {
        let number = Self.number(body.prefix(5))
        serial = number % Self.serials
        marks = Marks(rawValue: number & ~(Self.serials - 1))
        issued = Instant(nanoseconds: Int64(Self.number(body.suffix(5))) * 1_000_000)
    }

    /// The nonce as text: 28 characters of base64url without padding.
    func text(for holder: NonceHolder, _ functions: DigestFunctions) -> NonceText {
        let body = body
        let code = Self.code(body, holder, functions)
        return NonceText(nonce: self, body: body, code: code[...])
    }

    /// Whether the nonce was made at most one lifetime ago, and not in the future.
    func isYoung(now: Instant, lifetime: Duration) -> Bool { issued <= now && now - issued <= lifetime }

    private static func code(_ body: [UInt8], _ holder: NonceHolder, _ functions: DigestFunctions) -> [UInt8] {
        var text = body
        switch holder {
        case .trusted: break
        case .source(let address):
            let source = address.source
            text.append(big: source.high)
            text.append(big: source.low)
        case .user(let user):
            text.append(user.user)
            text.append("@")
            text.append(user.host)
        }
        return Array(functions.code(text).prefix(codeLength))
    }

    private var body: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32)
        bytes.append(big: serial | marks.rawValue, count: 5)
        bytes.append(big: UInt64(issued.nanoseconds / 1_000_000), count: 5)
        return bytes
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// A nonce with its text; the text may come from the network and be forged.
    struct NonceText {
        let nonce: Nonce
        private let body: [UInt8]
        private let code: ArraySlice<UInt8>

        init(nonce: Nonce, body: [UInt8], code: ArraySlice<UInt8>) {
            self.nonce = nonce
            self.body = body
            self.code = code
        }

        /// Reads the text of a nonce; `nil` for text in another form than this daemon's nonces.
        init?(_ text: ByteString) {
            guard text.count == 28, let bytes = text.withSpan({ Base64.url.decode($0) }),
                bytes.count == Nonce.bodyLength + Nonce.codeLength
            else { return nil }
            body = Array(bytes[0..<Nonce.bodyLength])
            code = bytes[Nonce.bodyLength...]
            nonce = Nonce(body[...])
        }

        /// Whether this process made the nonce for the given holder.
        func isMade(for holder: NonceHolder, _ functions: DigestFunctions) -> Bool {
            equalInConstantTime(Nonce.code(body, holder, functions), ByteString(code))
        }

        var text: ByteString { ByteString(Base64.url.encode(body + code)) }

        /// The first 64 bits of the code, by which bindings recognise the nonce; never 0.
        var name: UInt64 { max(1, Nonce.number(code.prefix(8))) }
    }
}

/// Remembers the highest nonce count of each used nonce, so that no count is accepted twice.
///
/// The entries are in two generations, so that their memory is limited. The older generation is dropped when the newer
/// generation is half full or one nonce lifetime old. If the entry of a nonce may have been dropped, the nonce is
/// refused as stale.
struct NonceLedger {
    private struct Use {
        var count: UInt32
        /// A hash of the request with the highest nonce count, ``count``.
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
    /// The time at which the newer generation of entries began.
    private var began: Instant?
    /// The highest serial number of a nonce whose entry was dropped. A nonce with this serial number or a lower one may
    /// have been used, even if it has no entry.
    private var forgotten: UInt64 = 0

    init(limit: Int, lifetime: Duration) {
        self.limit = limit
        self.lifetime = lifetime
    }

    var count: Int { current.uses.count + previous.uses.count }

    /// Whether a request with the given nonce count is accepted. An accepted nonce count cannot be used again.
    ///
    /// A request with the last nonce count and an unchanged `fingerprint` is accepted again, because it is a
    /// retransmission.
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
