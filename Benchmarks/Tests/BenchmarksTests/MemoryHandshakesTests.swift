import Benchmarks
import Testing

@Suite("Handshakes in memory")
struct MemoryHandshakesTests {
    @Test func `handshakes are full first, and resumed by the ticket of a full one`() throws {
        let handshakes = try MemoryHandshakes()
        let full = try handshakes.run(2)
        let resumed = try handshakes.run(3, resumes: true)
        #expect(full.resumed == 0)
        #expect(resumed.resumed == 3)
        #expect(full.time > .zero && resumed.time > .zero)
    }
}
