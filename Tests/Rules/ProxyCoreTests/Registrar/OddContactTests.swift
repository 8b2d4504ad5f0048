import Bytes
import ProxyCore
import Testing
import TestSupport

@Suite("Contacts that are odd but legal")
struct OddContactTests {
    private func register(_ contact: String) -> [String] {
        let bench = EngineBench()
        let first = bench.receive(
            SIPText.register(
                user: "bob", from: EngineBench.phone, callID: "odd", cseq: 1, branch: "odd", contact: contact))
        return story(first + bench.commitAll(in: first))
    }

    @Test(arguments: [
        "<sip:bob@192.0.2.5;pn-provider=fcm;pn-prid=>", "<sip:bob@192.0.2.5;pn-provider=fcm;pn-prid>",
        "<sip:bob@192.0.2.5;pn-provider=;pn-prid=>", "<sip:bob@192.0.2.5;pn-provider=;pn-prid=;pn-param=>",
    ])
    func `empty push parameters make an ordinary contact`(contact: String) {
        #expect(register(contact) == ["commit", "200 register > phone"])
    }

    @Test(arguments: ["<sip:h>", "<sip:b@h>", "<sip:b@h:5070>", "<sip:h;x>", "sip:h", "<sip:1@[::1]>"])
    func `short hosts and users are accepted`(contact: String) {
        #expect(register(contact) == ["commit", "200 register > phone"])
    }
}
