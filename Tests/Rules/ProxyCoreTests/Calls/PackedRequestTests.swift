import SIPGrammar
import Calling
import TestSupport
import Testing

@testable import ProxyCore

@Suite("INVITEs that wait long")
struct PackedRequestTests {
    private let scene = MachineScene()

    @Test func `a packed INVITE reaches its phone unchanged`() throws {
        func delivered(before first: Int = 0, after others: Int) throws -> [UInt8] {
            let bench = EngineBench.registered()
            func hold(_ count: Int, _ prefix: String) throws {
                for number in 0..<count {
                    let name = "\(prefix)\(number)"
                    _ = bench.engine.calls.begin(
                        try MachineScene.invite(name), nil, branches: [], purpose: .userCall(scene.offer(name)))
                }
            }
            try hold(first, "before")
            bench.invite()
            try hold(others, "after")
            for action in bench.register(cseq: 2) {
                if case .send(let bytes, _) = action, readRequest(bytes)?.method == .invite { return bytes }
            }
            throw MachineScene.Unreadable()
        }
        let fresh = try delivered(after: 0)
        // The engine keeps the first request that waits for a long time whole, and packs later requests as differences
        // from an earlier request.
        #expect(try delivered(after: 1024) == fresh)
        #expect(try delivered(before: 1, after: 1024) == fresh)
        #expect(try delivered(before: 300, after: 1500) == fresh)
    }
}
