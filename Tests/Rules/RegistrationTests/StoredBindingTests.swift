import Addressing
import Bytes
import PushDelivery
import Registration
import Testing
import Timekeeping

@Suite struct StoredBindingTests {
    private func row(_ contact: String, isPush: Bool = true) -> StoredBinding {
        StoredBinding(
            id: DeviceID(rawValue: 1), aor: AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net")),
            contact: ByteString(contact), callID: ByteString("c"), cseq: 1, path: [],
            flow: Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(.anyV4, 5060)), granted: 60,
            freshUntil: UnixTime(seconds: 1), registeredAt: UnixTime(seconds: 1), isPush: isPush)
    }

    @Test(arguments: [
        "<sip:bob@192.0.2.7;pn-provider=apns;pn-param=T.a.voip;pn-prid=00aa>",
        "<sip:bob@192.0.2.7;pn-provider=apns;pn-param=T.a.voip;pn-prid=00aa>;q=0.5",
    ])
    func `a row has its push token, in the usual and in a rare form`(contact: String) {
        #expect(row(contact).pushToken?.provider == .apns)
        #expect(row(contact).pushToken?.prid == ByteString("00aa"))
        #expect(row(contact, isPush: false).pushToken == nil)
    }

    @Test func `a row without push parameters has no token`() {
        #expect(row("<sip:bob@192.0.2.7>").pushToken == nil)
        #expect(row("<sip:bob@192.0.2.7>;q=0.5").pushToken == nil)
    }
}
