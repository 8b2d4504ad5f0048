import Bytes
import PushDelivery
import TestSupport
import Testing

@testable import ProxyCore

@Suite("Callers' names in pushes (T10.4)")
struct CallerNameTests {
    /// Makes a call with the given From field, and returns the call as its push describes it.
    private func called(from field: String) throws -> IncomingCall {
        let bench = EngineBench.registered()
        let text = String(
            decoding: SIPText.invite(to: "bob", from: "104", at: EngineBench.pbx, callID: "n", branch: "n"),
            as: UTF8.self)
        let from = try #require(text.split(separator: "\r\n").first { $0.hasPrefix("From:") })
        let actions = bench.receive(
            Array(text.replacing(from, with: "From: \(field);tag=a").utf8), from: EngineBench.pbx)
        for action in actions {
            if case .push(let transmission) = action, case .incomingCall(let call) = transmission.push.message {
                return call
            }
        }
        throw Missing()
    }

    private struct Missing: Error {}

    @Test(arguments: [
        ("\"\u{202e}gpj.anna\u{2066}\" <sip:%E2%80%AE104@pbx>", "gpj.anna"), ("\"Анна\" <sip:104@pbx>", "Анна"),
    ])
    func `have neither control characters nor direction marks`(field: String, name: String) throws {
        let call = try called(from: field)
        #expect(call.displayName == ByteString(name))
    }
}
