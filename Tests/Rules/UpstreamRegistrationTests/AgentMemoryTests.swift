import Addressing
import Bytes
import Registration
import SIPGrammar
import Testing
import Timekeeping

@testable import UpstreamRegistration

@Suite("Upstream agent: memory")
struct AgentMemoryTests {
    /// A user takes a record, a deadline, two index entries, a name of 16 bytes, and 64 bytes for nonce and opaque.
    /// With 100,000 registered users, the measured resident memory was 284 bytes for each user, with the unused ends of
    /// arrays.
    @Test func `the parts of a user add up to at most 260 bytes`() {
        let deadline = 32 + MemoryLayout<UInt32?>.stride
        let sum = MemoryLayout<UserRecord>.stride + deadline + 2 * 16 + 16 + 64
        #expect(sum <= 260, "\(sum)")
    }

    @Test func `users who come and go leave no records, deadlines or queues behind`() {
        var world = AgentWorld()
        for round in 0..<50 {
            for number in 0..<20 {
                world.pbx.passwords["r\(round)n\(number)"] = "p"
                world.add("r\(round)n\(number)", password: "p")
            }
            world.advance(by: .seconds(3))
            for number in 0..<20 { world.end("r\(round)n\(number)") }
            world.advance(by: .seconds(3))
        }
        #expect(world.agent.records.count <= 21)
        #expect(world.agent.records.allSatisfy { $0.marks.contains(.isVacant) })
        #expect(world.agent.timers.count == 0)
        #expect(world.agent.stands[0].waitingCount == 0)
        #expect(world.agent.counts.states.allSatisfy { $0 == 0 })
    }
}
