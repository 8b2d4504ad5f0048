import Bytes
import Testing

@Suite("Blocks in slabs")
struct ByteSlabsTests {
    private func read(_ place: ByteSlabs.Place, in slabs: ByteSlabs) -> [UInt8] {
        slabs.withBytes(place) { ByteString(copying: $0).array }
    }

    @Test func `blocks of all lengths are added and removed, and none disturbs another`() throws {
        var state: UInt64 = 5
        func random(_ limit: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % limit
        }
        var slabs = ByteSlabs()
        var kept: [(place: ByteSlabs.Place, bytes: [UInt8])] = []
        for step in 0..<6000 {
            if random(5) < 2, !kept.isEmpty {
                let index = random(kept.count)
                #expect(read(kept[index].place, in: slabs) == kept[index].bytes)
                slabs.remove(kept.remove(at: index).place)
            } else {
                let count = random(step % 100 == 0 ? 3000 : 70)
                let bytes = (0..<count).map { _ in UInt8(random(256)) }
                let place = slabs.add(bytes.span)
                kept.append((try #require(place), bytes))
            }
        }
        #expect(kept.count > 500)
        for (place, bytes) in kept { #expect(read(place, in: slabs) == bytes) }
    }

    @Test func `a text that is too long is refused`() throws {
        var slabs = ByteSlabs()
        let longest = [UInt8](repeating: 7, count: 65_535)
        let place = slabs.add(longest.span)
        #expect(read(try #require(place), in: slabs) == longest)
        let refused = slabs.add([UInt8](repeating: 7, count: 65_536).span)
        #expect(refused == nil)
    }
}
