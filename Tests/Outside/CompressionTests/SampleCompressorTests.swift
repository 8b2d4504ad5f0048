import Bytes
import Compression
import TestSupport
import Testing

@Suite("Compression by a sample")
struct SampleCompressorTests {
    private let compressor = SampleCompressor()

    @Test func `a text that resembles the sample gets short, and is restored exactly`() throws {
        let text = ByteString((0..<40).map { "Header-\($0): value \($0 * 7919 % 1000)\r\n" }.joined())
        let other = ByteString(text.string.replacing("Header-17", with: "Kopfzeile"))
        let block = try #require(compressor.block(of: other, like: text, limit: other.count))
        #expect(block.count < 60)
        #expect(SampleCompressor.bytes(of: block, count: other.count, like: text) == other)
    }

    @Test func `bytes without any likeness are not longer than the limit, or there is no block`() {
        var random = SeededGenerator(seed: 1)
        let noise = ByteString(random.bytes(1000))
        let sample = ByteString(random.bytes(1000))
        #expect(compressor.block(of: noise, like: sample, limit: 1000) == nil)
        #expect(compressor.block(of: noise, like: .empty, limit: 900) == nil)
        #expect(compressor.block(of: .empty, like: sample, limit: 100) == nil)
        #expect(compressor.block(of: noise, like: noise, limit: 0) == nil)
    }

    @Test func `any bytes by any sample are read again, one after the other with the same compressor`() throws {
        var random = SeededGenerator(seed: 2)
        var blocks = 0
        for _ in 0..<2000 {
            let sample = ByteString(words(&random, Int.random(in: 0...700, using: &random)))
            let bytes = ByteString(words(&random, Int.random(in: 1...700, using: &random)))
            guard let block = compressor.block(of: bytes, like: sample, limit: bytes.count) else { continue }
            blocks += 1
            #expect(block.count <= bytes.count)
            #expect(SampleCompressor.bytes(of: block, count: bytes.count, like: sample) == bytes)
        }
        #expect(blocks > 1000)
    }

    @Test func `of a long sample its first bytes count`() throws {
        var random = SeededGenerator(seed: 3)
        let start = random.bytes(SampleCompressor.sampleLimit)
        let bytes = ByteString(start.suffix(500))
        let block = try #require(
            compressor.block(of: bytes, like: ByteString(start + random.bytes(100_000)), limit: 100))
        #expect(SampleCompressor.bytes(of: block, count: 500, like: ByteString(start)) == bytes)
        let late = ByteString(start + Array(bytes.array.reversed()))
        #expect(compressor.block(of: ByteString(bytes.array.reversed()), like: late, limit: 400) == nil)
    }

    @Test func `a block that was changed, cut, or is read by another sample does no harm`() throws {
        var random = SeededGenerator(seed: 4)
        let sample = ByteString(words(&random, 300))
        let bytes = ByteString(sample.array.prefix(100) + words(&random, 100))
        let block = try #require(compressor.block(of: bytes, like: sample, limit: bytes.count)).array
        for place in block.indices {
            var changed = block
            changed[place] ^= UInt8.random(in: 1...255, using: &random)
            _ = SampleCompressor.bytes(of: ByteString(changed), count: bytes.count, like: sample)
            _ = SampleCompressor.bytes(of: ByteString(block.prefix(place)), count: bytes.count, like: sample)
            _ = SampleCompressor.bytes(of: ByteString(block), count: place, like: sample)
        }
        #expect(SampleCompressor.bytes(of: ByteString(block), count: bytes.count + 1, like: sample) == nil)
        #expect(SampleCompressor.bytes(of: ByteString(block), count: bytes.count - 1, like: sample) == nil)
        #expect(SampleCompressor.bytes(of: ByteString(block), count: bytes.count, like: .empty) == nil)
    }

    /// Makes a text with many repetitions, from a few different words.
    private func words(_ random: inout SeededGenerator, _ count: Int) -> [UInt8] {
        var text: [UInt8] = []
        while text.count < count { text += Array("word\(UInt8.random(in: 0...50, using: &random)) ".utf8) }
        return Array(text.prefix(count))
    }
}
