import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@Suite("Phones that are awake")
struct AwakePhoneTests {
    @Test(arguments: [Transport.udp, .tcp])
    func `a keep-alive on the phone's flow releases the call once`(transport: Transport) {
        let story = PhoneStory(
            "\(transport)", over: transport, .register(), .keepAlive(), .wakingCall, .keepAlive(at: 1),
            .keepAlive("invite > 0"), .keepAlive(),
            // A phone that has got the INVITE and registers again on the same flow gets no second INVITE.
            .register(), .answer(180, "180 invite > pbx"), .answer(200, "200 invite > pbx"))
        #expect(story.faults == [])
    }

    @Test(arguments: [
        SIPText.bytes([
            "OPTIONS sip:example.net SIP/2.0", "Via: SIP/2.0/UDP 192.0.2.5:40000;branch=z9hG4bKo",
            "From: <sip:bob@example.net>;tag=o", "To: <sip:example.net>", "Call-ID: o", "CSeq: 1 OPTIONS",
            "Max-Forwards: 70",
        ]),
        SIPText.bytes([
            "SIP/2.0 200 OK", "Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKlate", "From: <sip:x@example.net>;tag=o",
            "To: <sip:bob@example.net>;tag=p", "Call-ID: o", "CSeq: 1 MESSAGE",
        ]),
    ])
    func `any request and any response is a sign of life`(text: [UInt8]) {
        let story = PhoneStory(
            String(decoding: text.prefix(7), as: UTF8.self), .register(), .wakingCall,
            PhoneStory.Step("a sign of life", []) { $0.said($0.bench.receive(text, on: $0.flow(0))) }.including(
                "invite > 0"))
        #expect(story.faults == [])
    }

    @Test(arguments: [true, false])
    func `an INVITE that was lost on a flow thought alive is repeated when the phone is there`(registers: Bool) {
        let story = PhoneStory(
            registers ? "it registers" : "it sends a keep-alive", where: ringsLiveFlows, .register(), .ringingCall,
            .push(.accepted(nil)),
            // The daemon retransmits the INVITE after 0.5, 1.5, 3.5, 7.5 and 15.5 s, and then the call ends.
            .pass(20).times(5, "invite > 0"), registers ? .register("invite > 0") : .keepAlive("invite > 0"),
            // The daemon sends the phone one INVITE in this story, and all further copies are retransmissions.
            .invites(1), .answer(180, "180 invite > pbx"), .register(), .keepAlive(),
            .answer(200, "200 invite > pbx"))
        #expect(story.faults == [])
    }

    @Test(arguments: [
        PhoneStory(
            "a REGISTER that is not accepted is no sign of life", .register(), .wakingCall,
            PhoneStory.Step("a REGISTER with an unknown provider", ["555 register > 0"]) { phone in
                let refused = SIPText.register(
                    user: "bob", from: phone.flow(0).remote, callID: "x", cseq: 1, branch: "x",
                    contact: "<sip:bob@192.0.2.5;pn-provider=none;pn-prid=x>")
                return phone.said(phone.bench.receive(refused, on: phone.flow(0)))
            }),
        PhoneStory(
            "a flow that carries many phones says nothing of one",
            where: { $0.trusted += [TrustedPeer("192.0.2.5")].compactMap { $0 } }, .register(), .wakingCall,
            .keepAlive()),
        PhoneStory(
            "a connection that has ended is not tried: the phone is pushed", over: .tcp,
            where: { $0.call.skipPushWithin = .seconds(600) }, .register(), .closed(), .wakingCall,
            .register(at: 1, "invite > 1")),
        PhoneStory(
            "a flow that showed life lately gets the INVITE at once, and the push beside it", where: ringsLiveFlows,
            .register(), .pass(59), .keepAlive(), .pass(59), .ringingCall,
            // The phone was awake when the call arrived, and registers on the same flow because of the push.
            .register(), .answer(200, "200 invite > pbx")),
        PhoneStory("one that did not is pushed", where: ringsLiveFlows, .register(), .pass(61), .wakingCall),
        PhoneStory(
            "a flow that was thought alive is asleep, and the phone comes from elsewhere", where: ringsLiveFlows,
            .register(), .ringingCall, .push(.accepted(nil)), .register(at: 1, "invite > 1"),
            .answer(180, "180 invite > pbx"),
            // The phone's 180 comes after the new REGISTER, so the daemon does not forward this 180 to the caller.
            .answer(180, to: .first, at: 0, "cancel > 0"), .answer(487, to: .first, at: 0, "ack > 0"),
            .answer(200, "200 invite > pbx")),
    ])
    func `a phone may be awake, or not`(story: PhoneStory) { #expect(story.faults == []) }
}

private let ringsLiveFlows: @Sendable (inout ProxySettings) -> Void = { $0.call.ringLiveFlowWithin = .seconds(60) }

extension PhoneStory.Step {
    /// A call whose INVITE the phone gets immediately, together with a push.
    fileprivate static var ringingCall: Self { .call("100 invite > pbx", "push invite tok1", "invite > 0") }
}

@Suite("Phones that move while they are called")
struct MovingPhoneTests {
    @Test(arguments: [Transport.udp, .tcp])
    func `a ringing phone that registers at a new address rings only at the new address`(transport: Transport) {
        let story = PhoneStory(
            "\(transport)", over: transport, .called(), .register(at: 1, "cancel > 0", "invite > 1"), .reasons(),
            .answer(487, to: .first, at: 0, "ack > 0"), .register(at: 1), .answer(180, "180 invite > pbx"),
            .answer(200, "200 invite > pbx"))
        #expect(story.faults == [])
    }

    @Test(arguments: [Status(code: 487), 482, 408, 503, 486])
    func `the final response from the old address does not count`(status: Status) {
        let story = PhoneStory(
            "\(status)", .called(), .register(at: 1, "cancel > 0", "invite > 1"),
            .answer(status, to: .first, at: 0, "ack > 0"), .answer(486, "ack > 1", "486 invite > pbx"))
        #expect(story.faults == [])
    }

    @Test(arguments: [true, false])
    func `a broken connection makes the call wait again, and the caller gets no message`(rings: Bool) {
        let story = PhoneStory(
            rings ? "it rings" : "it does not ring", over: .tcp, .called(rings: rings), .closed(),
            // A phone that rings on a dead connection receives the CANCEL on its new connection.
            rings ? .register(at: 1, "cancel > 1", "invite > 1") : .register(at: 1, "invite > 1"),
            .answer(200, "200 invite > pbx"))
        #expect(story.faults == [])
    }

    @Test(arguments: [
        PhoneStory(
            "a phone that was not heard of is cancelled there when it is", .called(rings: false),
            .register(at: 1, "invite > 1"), .answer(100, to: .first, at: 0, "cancel > 0")),
        PhoneStory(
            "a 2xx from the old place that crosses is the answer, and the new one is cancelled", .called(),
            .register(at: 1, "cancel > 0", "invite > 1"), .answer(180, "180 invite > pbx"),
            .answer(200, to: .first, at: 0, "200 invite > pbx", "cancel > 1"), .reasons(), .answer(487, "ack > 1")),
        PhoneStory(
            "a phone that says nothing is found where it registers", .called(rings: false),
            .pass(20).times(5, "invite > 0"), .register(at: 1, "invite > 1"), .answer(200, "200 invite > pbx")),
    ])
    func `a place that it has left`(story: PhoneStory) { #expect(story.faults == []) }

    @Test(arguments: [
        PhoneStory(
            "nobody comes back: the hold ends when it would have ended", over: .tcp, .called(), .pass(10), .closed(),
            .pass(19), .pass(2).including("480 invite > pbx")),
        PhoneStory(
            "a phone that rang for long has a little time to come back", over: .tcp, .called(), .pass(60), .closed(),
            .pass(9), .register(at: 1).including("invite > 1")),
        PhoneStory(
            "it is pushed when no push has left for it, and not twice", over: .tcp,
            where: { $0.call.skipPushWithin = .seconds(60) }, .register(), .plainCall, .closed("push invite tok1"),
            .push(.accepted(nil)), .register(at: 1, "invite > 1"), .closed(at: 1), .register(at: 2, "invite > 2")),
        PhoneStory(
            "the same when the phone was there before the push had left", over: .tcp,
            where: EngineBench.wantsCredential,
            .register(), .call("100 invite > pbx"), .register("invite > 0"), .credential, .closed("push invite tok1"),
            // The call counts as missed, because the phone never got the INVITE.
            .pass(31).including("480 invite > pbx"), .register(at: 1).including("push missed 103 tok1")),
        PhoneStory(
            "what was read from a connection before it ended does no harm", over: .tcp, .register(), .pass(60),
            .wakingCall, .closed(), .keepAlive(), .register(at: 1).including("invite > 1")),
    ])
    func `a connection that ends`(story: PhoneStory) { #expect(story.faults == []) }

    @Test(arguments: [
        PhoneStory(
            "it is waited for as well", over: .tcp, .register(token: nil), .plainCall,
            .answer(180, "180 invite > pbx"), .closed(), .register(at: 1, token: nil).including("invite > 1"),
            .answer(200, "200 invite > pbx")),
        PhoneStory(
            "one that had the INVITE when its connection ended answers that one", over: .tcp, .register(token: nil),
            .plainCall,
            // When the connection has closed, the daemon tries the port of the Contact, where the phone may accept
            // connections.
            .closed("invite > contact"), .register(at: 1, token: nil).including("invite > 1"),
            // The 482 shows that the phone has the first INVITE, so the daemon cancels it without a provisional response.
            // Then the daemon sends the phone a new INVITE.
            .answer(482, "ack > 1", "cancel > 1"), .answer(487, to: .first, "ack > 1", "invite > 1"),
            .answer(200, "200 invite > pbx")),
        PhoneStory(
            "one that answers the INVITE it had when its connection ended has the call", over: .tcp,
            .register(token: nil), .plainCall, .closed("invite > contact"),
            .register(at: 1, token: nil).including("invite > 1"),
            .answer(200, to: .first).including("200 invite > pbx")),
    ])
    func `an ordinary contact`(story: PhoneStory) { #expect(story.faults == []) }

    @Test(arguments: [
        PhoneStory(
            "the phone is told where it is", .called(), .register(at: 1, "cancel > 0", "invite > 1"),
            .answer(180, "180 invite > pbx"), .cancel("200 cancel > pbx", "cancel > 1"),
            .answer(487, "ack > 1", "487 invite > pbx")),
        PhoneStory(
            "and then the phone moves: the CANCEL follows it", .called(), .cancel("200 cancel > pbx", "cancel > 0"),
            .register(at: 1, "cancel > 1"), .answer(487, to: .first, "ack > 1", "487 invite > pbx")),
        PhoneStory(
            "while a phone that rings has lost its connection: it hears of it when it is back", over: .tcp, .called(),
            .closed(), .cancel(reasons: ["SIP;cause=200"], "200 cancel > pbx", "487 invite > pbx"),
            .register(at: 1, "cancel > 1"), .reasons("SIP;cause=200")),
        PhoneStory(
            "and then the connection ends: the caller does not wait, and the CANCEL follows the phone", over: .tcp,
            .called(), .answer(180, "180 invite > pbx"), .cancel("200 cancel > pbx", "cancel > 0"),
            .closed("487 invite > pbx"), .register(at: 1, "cancel > 1"),
            .answer(487, to: .first, at: 1, "ack > 1")),
    ])
    func `the caller gives up`(story: PhoneStory) { #expect(story.faults == []) }

    // MARK: The phone met the INVITE twice

    @Test(arguments: [
        PhoneStory(
            "it ends nothing: what the phone met first is taken back, and the INVITE comes again", .called(),
            .register(at: 1, "cancel > 0", "invite > 1"),
            // The CANCEL to the phone's old address was lost, so the daemon sends a CANCEL to the new address.
            .answer(482, "ack > 1", "cancel > 1"), .answer(487, to: .first, "ack > 1", "invite > 1"),
            .answer(200, "200 invite > pbx")),
        PhoneStory(
            "the phone may still answer what it met first", .called(), .register(at: 1, "cancel > 0", "invite > 1"),
            .answer(482, "ack > 1", "cancel > 1"), .answer(200, to: .first, "200 invite > pbx")),
        PhoneStory(
            "when that is over already, the INVITE comes again at once; not for ever", .called(),
            .register(at: 1, "cancel > 0", "invite > 1"), .answer(487, to: .first, at: 0, "ack > 0"),
            .answer(482, "ack > 1", "invite > 1"), .answer(482, "ack > 1", "invite > 1"),
            .answer(482, "ack > 1", "invite > 1"), .answer(482, "ack > 1", "482 invite > pbx")),
        PhoneStory(
            "of a phone that has not moved it is the answer", .called(), .answer(482, "ack > 0", "482 invite > pbx")),
    ])
    func `a 482`(story: PhoneStory) { #expect(story.faults == []) }
}
