@testable import Routing
import TestSupport
import SIPGrammar
import Testing

@Suite("To tags")
struct TagsTests {
    @Test func `each tag is new, and each run has others`() {
        var first = Tags(key: 1)
        var second = Tags(key: 0x9d3c_51a7_e8f0_2b46)
        let tags = (0..<10_000).map { _ in "\(first.next())" } + (0..<10_000).map { _ in "\(second.next())" }
        #expect(Set(tags).count == 20_000)
    }

    @Test func `a repeated request gets the same tag, and another request gets another`() throws {
        func tag(_ key: UInt64, _ callID: String) throws -> String {
            "\(Tags(key: key).stateless(for: try MachineScene.invite(callID).request))"
        }
        #expect(try tag(1, "c1") == tag(1, "c1"))
        #expect(try tag(1, "c1") != tag(1, "c2"))
        #expect(try tag(1, "c1") != tag(2, "c1"))
    }
}
