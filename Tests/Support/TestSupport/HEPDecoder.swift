/// Reads HEP packets as a collector does, written from the specification of HEP3 alone.
package struct HEPDecoder: Sendable {
    package struct Chunk: Equatable, Sendable {
        package let vendor: Int
        package let type: Int
        package let payload: [UInt8]
    }

    package let chunks: [Chunk]

    /// Reads the chunks in any order; `nil` if the packet is malformed.
    package init?(_ packet: [UInt8]) {
        guard packet.count >= 6, Array(packet[0..<4]) == Array("HEP3".utf8),
            Self.number(packet[4..<6]) == packet.count
        else { return nil }
        var at = 6
        var chunks: [Chunk] = []
        while at < packet.count {
            guard at + 6 <= packet.count else { return nil }
            let length = Self.number(packet[at + 4..<at + 6])
            guard length >= 6, at + length <= packet.count else { return nil }
            chunks.append(
                Chunk(
                    vendor: Self.number(packet[at..<at + 2]), type: Self.number(packet[at + 2..<at + 4]),
                    payload: Array(packet[at + 6..<at + length])))
            at += length
        }
        self.chunks = chunks
    }

    package static func number(_ bytes: some Sequence<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }

    package func bytes(_ type: Int) -> [UInt8]? { chunks.first { $0.type == type }?.payload }

    package func number(_ type: Int) -> Int? { bytes(type).map { Self.number($0) } }

    package func text(_ type: Int) -> String? { bytes(type).map { String(decoding: $0, as: UTF8.self) } }

    /// The payload as sngrep reads it, in the fixed order of its source, with a password only if `hasPassword` is true.
    /// The result is `nil` if a chunk is not at the index where sngrep expects it.
    package func payloadForSngrep(hasPassword: Bool) -> [UInt8]? {
        let isV4 = bytes(0x01) == [2]
        let order = [1, 2, 7, 8, 9, 0xa, 0xb, 0xc] + (isV4 ? [3, 4] : [5, 6]) + (hasPassword ? [0xe] : []) + [0xf]
        guard chunks.count >= order.count else { return nil }
        for (chunk, type) in zip(chunks, order) where chunk.vendor != 0 || chunk.type != type { return nil }
        return chunks[order.count - 1].payload
    }
}
