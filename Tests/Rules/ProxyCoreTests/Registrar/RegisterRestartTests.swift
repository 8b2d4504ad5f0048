import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Tests that a phone may repeat a REGISTER whose 200 it has not received, even if the daemon crashes in between.
@Suite struct RegisterRestartTests {
    private static let push = "pn-provider=fcm;pn-param=p;pn-prid=tok1"
    private static let instance = "+sip.instance=\"<urn:uuid:00000000-0000-4000-8000-000000000001>\""

    @Test(arguments: [
        "<sip:bob@192.0.2.5;\(push)>",
        "<sip:bob@192.0.2.5;\(push)>;+sip.pnsreg",
        "<sip:bob@192.0.2.5;pn-provider>",
        "<sip:bob@192.0.2.5;\(push)>;reg-id=1;\(instance)",
        "<sip:bob@192.0.2.5;\(push)>, <sip:bob@192.0.2.6>",
        "<sip:bob@192.0.2.5>",
    ])
    func `a repeated REGISTER gets the same answer as at first`(contact: String) throws {
        let bench = RestartBench { $0.registrar.announcesPURR = true }
        let flow = RestartBench.stream(1)
        let register = { (branch: String) -> [String] in
            let text = SIPText.register(
                user: "bob", from: flow.remote, transport: .tcp, callID: "r", cseq: 1, branch: branch,
                contact: contact, expires: 600, extra: ["Supported: outbound, path, gruu"])
            _ = bench.told(bench.bench.receive(text, on: flow))
            return bench.lastResponse.map(Self.rows) ?? []
        }
        let first = register("a")
        #expect(first.first == "SIP/2.0 200 OK")
        #expect(register("b") == first)
        bench.crash()
        #expect(register("c") == first)
    }

    /// The header fields of a response that do not depend on the transaction or the time of day.
    private static func rows(of response: SIPResponse) -> [String] {
        let own = ["Via", "To", "Date"]
        return String(decoding: response.frame.bytes.array, as: UTF8.self).split(separator: "\r\n").map(String.init)
            .filter { row in !own.contains { row.hasPrefix("\($0):") } }
            .map { row in
                // The test does not compare the values of `expires` and `temp-gruu`, because these values differ in
                // each response.
                row.replacing(/;expires=\d+/, with: "").replacing(/temp-gruu="[^"]*"/, with: "temp-gruu")
                    .replacing(/pnspurr="[^"]*"/, with: "pnspurr")
            }
    }
}
