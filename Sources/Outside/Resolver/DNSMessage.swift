/// Reads how long the records of a DNS message are valid (RFC 1035 section 4); c-ares parses the rest.
package enum DNSMessage {
    /// The shortest time to live of the records in seconds; 0 if the message is malformed.
    package static func timeToLive(_ message: Span<UInt8>) -> UInt32 {
        guard message.count >= 12 else { return 0 }
        let questions = number(message, at: 4, bytes: 2)
        let answers = number(message, at: 6, bytes: 2)
        var position = 12
        for _ in 0..<questions {
            guard let end = endOfName(message, from: position), end + 4 <= message.count else { return 0 }
            position = end + 4
        }
        var shortest: UInt32?
        for _ in 0..<answers {
            guard let end = endOfName(message, from: position), end + 10 <= message.count else { return 0 }
            shortest = min(shortest ?? .max, number(message, at: end + 4, bytes: 4))
            position = end + 10 + Int(number(message, at: end + 8, bytes: 2))
            guard position <= message.count else { return 0 }
        }
        // A time to live with the highest bit set means zero (RFC 2181 section 8).
        guard let shortest, shortest <= UInt32(Int32.max) else { return 0 }
        return shortest
    }

    private static func number(_ message: Span<UInt8>, at index: Int, bytes: Int) -> UInt32 {
        (index..<index + bytes).reduce(0) { $0 << 8 | UInt32(message[$1]) }
    }

    private static func endOfName(_ message: Span<UInt8>, from start: Int) -> Int? {
        var position = start
        while position < message.count {
            let length = Int(message[position])
            if length == 0 { return position + 1 }
            // A compression pointer is the last part of a name. The compression pointer is not followed, because the
            // text of the name is not needed.
            if length >= 0xc0 { return position + 2 <= message.count ? position + 2 : nil }
            guard length < 0x40 else { return nil }
            position += 1 + length
        }
        return nil
    }
}
