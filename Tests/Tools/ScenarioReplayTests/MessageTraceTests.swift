import Testing

@testable import ScenarioReplay

@Suite struct MessageTraceTests {
    private static let trace = """
        ----------------------------------------------- 2026-11-21 05:32:25.479973
        UDP message sent (346 bytes):

        INVITE sip:bob@example.net SIP/2.0
        Via: SIP/2.0/UDP 127.0.0.1:5577;branch=z9hG4bK-4088-1-0
        CSeq: 1 INVITE
        Content-Length: 0


        ----------------------------------------------- 2026-11-21 05:32:25.485874
        TCP message received [296] bytes :

        SIP/2.0 100 Trying
        CSeq: 1 INVITE
        Content-Length: 0


        """

    @Test func `requests and responses are shown with their times`() {
        let messages = MessageTrace.messages(in: Self.trace)
        #expect(messages.map(\.label) == ["INVITE", "100 Trying"])
        #expect(messages.map(\.isSent) == [true, false])
        #expect(messages.map { $0.time.rounded() } == [1_795_239_145_480, 1_795_239_145_486])
    }

    @Test func `a message that is still being written is left out`() {
        #expect(MessageTrace.messages(in: String(Self.trace.prefix(100))).isEmpty)
        #expect(MessageTrace.messages(in: "").isEmpty)
    }

    @Test func `lines of other kinds are skipped`() {
        let noise = "Warning: something\n---------------- no time here\nBYE sip:x SIP/2.0\n"
        #expect(MessageTrace.messages(in: noise + Self.trace).count == 2)
    }

    @Test func `the lines of a message may end as in SIP`() {
        let trace = Self.trace.replacing("\n", with: "\r\n")
        #expect(MessageTrace.messages(in: trace).map(\.label) == ["INVITE", "100 Trying"])
    }

    @Test func `a message is sent before it is received elsewhere`() {
        let phone = [
            TracedMessage(time: 10, isSent: false, label: "INVITE", callID: "a"),
            TracedMessage(time: 13, isSent: true, label: "180 Ringing", callID: "a"),
            TracedMessage(time: 14, isSent: true, label: "200 OK (INVITE)", callID: "a"),
        ]
        let pbx = [
            TracedMessage(time: 5, isSent: true, label: "INVITE", callID: "a"),
            TracedMessage(time: 12, isSent: false, label: "180 Ringing", callID: "a"),
            TracedMessage(time: 12, isSent: false, label: "200 OK (INVITE)", callID: "b"),
        ]
        let straightened = [phone, pbx].straightened
        #expect(straightened[0].map(\.time) == [10, 11.999, 14])
        #expect(straightened[1] == pbx)
    }
}
