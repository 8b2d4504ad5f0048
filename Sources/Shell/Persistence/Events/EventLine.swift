import Bytes

/// One event in a file of the event log: a line with the event's number, owner, domain and checksum, and with the event
/// as JSON.
///
/// JSON text has no line end outside of escapes, so a reader that meets damaged bytes continues after the next line
/// end.
struct EventLine {
    let id: UInt64
    let owner: EventOwner
    /// The place of the JSON text in the file.
    let json: Range<Int>
    /// The place of the next line.
    let end: Int

    /// The number of bytes before the JSON text: a number of twenty digits and three numbers of sixteen hexadecimal
    /// digits, each with a space.
    static let headLength = 21 + 3 * 17
    /// The maximum number of bytes of a line.
    static let longest = 64 << 10

    /// Reads the line at a place; `nil` if no whole and intact line is there.
    init?(in bytes: [UInt8], at place: Int) {
        let start = place + Self.headLength
        guard start < bytes.count, let id = Self.number(in: bytes, at: place, digits: 20, base: 10),
            let user = Self.number(in: bytes, at: place + 21, digits: 16, base: 16),
            let domain = Self.number(in: bytes, at: place + 38, digits: 16, base: 16),
            let checksum = Self.number(in: bytes, at: place + 55, digits: 16, base: 16),
            let end = bytes[start...].prefix(Self.longest).firstIndex(of: UInt8(ascii: "\n"))
        else { return nil }
        let owner = EventOwner(user: user, domain: domain)
        guard checksum == Self.checksum(id, owner, bytes[start..<end]) else { return nil }
        self.id = id
        self.owner = owner
        json = start..<end
        self.end = end + 1
    }

    /// Appends a line.
    static func write(_ id: UInt64, _ owner: EventOwner, _ json: [UInt8], to out: inout [UInt8]) {
        append(id, digits: 20, base: 10, to: &out)
        append(owner.user, digits: 16, base: 16, to: &out)
        append(owner.domain, digits: 16, base: 16, to: &out)
        append(checksum(id, owner, json[...]), digits: 16, base: 16, to: &out)
        out += json
        out.append(UInt8(ascii: "\n"))
    }

    private static func checksum(_ id: UInt64, _ owner: EventOwner, _ json: ArraySlice<UInt8>) -> UInt64 {
        var hash = FNV1a()
        hash.mix(id)
        hash.mix(owner.user)
        hash.mix(owner.domain)
        hash.mix(ByteString(json))
        return hash.value
    }

    private static func number(in bytes: [UInt8], at place: Int, digits: Int, base: UInt64) -> UInt64? {
        guard bytes[place + digits] == UInt8(ascii: " ") else { return nil }
        var number: UInt64 = 0
        for byte in bytes[place..<place + digits] {
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f") where base == 16: digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            let (product, isTooLarge) = number.multipliedReportingOverflow(by: base)
            let (sum, isOver) = product.addingReportingOverflow(UInt64(digit))
            guard !isTooLarge, !isOver else { return nil }
            number = sum
        }
        return number
    }

    private static func append(_ number: UInt64, digits: Int, base: UInt64, to out: inout [UInt8]) {
        let text = String(number, radix: Int(base))
        out += [UInt8](repeating: UInt8(ascii: "0"), count: max(0, digits - text.utf8.count))
        out += text.utf8
        out.append(UInt8(ascii: " "))
    }
}

/// The user or push app to which an event belongs, and the user's domain, as hashes.
package struct EventOwner: Hashable, Sendable {
    package let user: UInt64
    package let domain: UInt64

    package init(user: UInt64, domain: UInt64) { (self.user, self.domain) = (user, domain) }

    /// The owner of events about the daemon itself.
    package static let daemon = EventOwner(user: 0, domain: 0)
}
