package import Addressing

/// A packet of the Homer Encapsulation Protocol, version 3 (HEP3). One packet carries one SIP message or one log line
/// to a collector such as Homer, heplify-server or sngrep.
///
/// sngrep needs a packet's chunks in a fixed order; other collectors accept any order.
package struct HEPPacket {
    /// The kind of a packet's payload, by its number in the chunk 0x000b.
    package enum Content: UInt8 {
        case sip = 1
        /// Homer's type for log lines: Homer shows a log line next to the call with the same Call-ID.
        case log = 100
    }

    /// The program that sends the packets, as collectors show it.
    package struct Agent: Sendable {
        package let id: UInt32
        package let name: [UInt8]
        /// The key that the collector checks; empty for none.
        package let password: [UInt8]

        package init(id: UInt32, name: [UInt8], password: [UInt8] = []) {
            (self.id, self.name, self.password) = (id, name, password)
        }
    }

    package let content: Content
    package let source: Endpoint
    package let target: Endpoint
    package let isDatagram: Bool
    /// The time of the message in microseconds since 1970.
    package let time: Int64
    /// The Call-ID to which a log line belongs; empty for SIP messages, which contain their Call-ID.
    package let correlation: [UInt8]

    package init(
        _ content: Content, from source: Endpoint, to target: Endpoint, isDatagram: Bool, time: Int64,
        correlation: [UInt8] = []
    ) {
        self.content = content
        self.source = source
        self.target = target
        self.isDatagram = isDatagram
        self.time = time
        self.correlation = correlation
    }

    /// The maximum length of a packet in bytes, because its length field has 16 bits.
    package static let longest = 65_535
    /// The maximum length of a packet in one UDP datagram over IPv4.
    package static let longestDatagram = 65_507

    /// Returns the bytes of the packet. If the packet would be longer than `limit`, the payload is cut.
    package func bytes(payload: Span<UInt8>, from agent: Agent, limit: Int) -> (bytes: [UInt8], isCut: Bool) {
        let name = agent.name.prefix(Self.longestText)
        let password = agent.password.prefix(Self.longestText)
        let correlation = correlation.prefix(Self.longestText)
        let isV4 = target.address.isV4
        var length = 6 + 7 + 7 + 8 + 8 + 10 + 10 + 7 + 10 + (isV4 ? 20 : 44)
        for text in [name, password, correlation] where !text.isEmpty { length += 6 + text.count }
        let room = max(0, min(limit, Self.longest) - length - 6)
        let kept = min(payload.count, room)
        length += 6 + kept

        var out: [UInt8] = []
        out.reserveCapacity(length)
        out += [0x48, 0x45, 0x50, 0x33]
        append(UInt64(length), 2, to: &out)
        chunk(0x01, isV4 ? 2 : 10, 1, to: &out)
        chunk(0x02, isDatagram ? 17 : 6, 1, to: &out)
        chunk(0x07, UInt64(source.port), 2, to: &out)
        chunk(0x08, UInt64(target.port), 2, to: &out)
        let time = UInt64(max(0, self.time))
        chunk(0x09, time / 1_000_000, 4, to: &out)
        chunk(0x0a, time % 1_000_000, 4, to: &out)
        chunk(0x0b, UInt64(content.rawValue), 1, to: &out)
        chunk(0x0c, UInt64(agent.id), 4, to: &out)
        address(source.address, isV4 ? 0x03 : 0x05, to: &out)
        address(target.address, isV4 ? 0x04 : 0x06, to: &out)
        if !password.isEmpty { chunk(0x0e, password.span, to: &out) }
        chunk(0x0f, payload.extracting(0..<kept), to: &out)
        if !name.isEmpty { chunk(0x13, name.span, to: &out) }
        if !correlation.isEmpty { chunk(0x11, correlation.span, to: &out) }
        return (out, kept < payload.count)
    }

    /// The maximum length in bytes of the agent's name, the password and the Call-ID.
    private static let longestText = 1024

    private func append(_ number: UInt64, _ count: Int, to out: inout [UInt8]) {
        for place in (0..<count).reversed() { out.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * place))) }
    }

    private func head(_ type: UInt64, _ length: Int, to out: inout [UInt8]) {
        append(0, 2, to: &out)
        append(type, 2, to: &out)
        append(UInt64(length + 6), 2, to: &out)
    }

    private func chunk(_ type: UInt64, _ number: UInt64, _ count: Int, to out: inout [UInt8]) {
        head(type, count, to: &out)
        append(number, count, to: &out)
    }

    private func chunk(_ type: UInt64, _ bytes: Span<UInt8>, to out: inout [UInt8]) {
        head(type, bytes.count, to: &out)
        for index in bytes.indices { out.append(bytes[index]) }
    }

    /// Appends the chunk of an address, in the packet's address family. If source and destination have different
    /// address families, the other family's address becomes the unspecified address.
    private func address(_ address: IPAddress, _ type: UInt64, to out: inout [UInt8]) {
        guard !target.address.isV4 else {
            return chunk(type, address.isV4 ? UInt64(address.v4Bits) : 0, 4, to: &out)
        }
        head(type, 16, to: &out)
        append(address.isV4 ? 0 : address.high, 8, to: &out)
        append(address.isV4 ? 0 : address.low, 8, to: &out)
    }
}
