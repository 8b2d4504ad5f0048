import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@Suite("Phones that are asked whether they are awake")
struct AskedPhoneTests {
    private static let asks: @Sendable (inout ProxySettings) -> Void = { $0.call.asksConnections = true }

    @Test(arguments: [
        PhoneStory(
            "any answer on its connection lets the call out, and what the phone says there later changes nothing",
            over: .tcp, where: asks, .register(), .askingCall, .answersQuestion(405, "invite > 0"),
            .keepAlive(), .answer(180, "180 invite > pbx"), .answer(200, "200 invite > pbx")),
        PhoneStory(
            "an answer that comes after the push was accepted counts as well", over: .tcp, where: asks, .register(),
            .askingCall, .provider(.accepted(nil)), .answersQuestion(200, "invite > 0")),
        PhoneStory(
            "a phone that says nothing is waited for, and its call ends when it would have ended", over: .tcp,
            where: asks, .register(), .askingCall, .push(.accepted(nil)), .pass(29.9),
            .pass(0.2, "480 invite > pbx")),
        PhoneStory(
            "a connection that breaks leaves the call waiting", over: .tcp, where: asks, .register(), .askingCall,
            .push(.accepted(nil)), .closed(), .register(at: 1, "invite > 1")),
        PhoneStory(
            "a question that has no answer yet stands for the next calls", over: .tcp, where: asks, .register(),
            .askingCall, .wakingCall, .answersQuestion(200, "invite > 0", "invite > 0")),
        PhoneStory(
            "over UDP nobody is asked", where: asks, .register(), .wakingCall),
        PhoneStory(
            "unless the settings say so",
            where: {
                $0.call.asksConnections = true
                $0.call.asksDatagrams = true
            }, .register(), .askingCall, .answersQuestion(200, "invite > 0")),
        PhoneStory(
            "a connection of a trusted peer or an edge carries many phones and is not asked", over: .tcp,
            where: {
                $0.call.asksConnections = true
                $0.trusted += [TrustedPeer("192.0.2.5")].compactMap { $0 }
            }, .register(), .wakingCall),
        PhoneStory(
            "a phone that gets its INVITE at once is not asked", over: .tcp,
            where: {
                $0.call.asksConnections = true
                $0.call.skipPushWithin = .seconds(600)
            }, .register(), .plainCall),
    ])
    func `a call asks an open connection`(story: PhoneStory) { #expect(story.faults == []) }

    @Test func `the question names the contact and the proxy, and no caller`() throws {
        let bench = EngineBench()
        let flow = Flow(transport: .tcp, listener: 1, connection: 7, remote: EngineBench.phone)
        let contact = "<sip:bob%0d%0aX@192.0.2.5;transport=tcp;pn-provider=fcm;pn-param=p;pn-prid=secret>"
        let register = SIPText.register(
            user: "bob", from: EngineBench.phone, transport: .tcp, callID: "r", cseq: 1, branch: "r", contact: contact)
        _ = bench.commitAll(in: bench.receive(register, on: flow))
        let sent = bench.invite()
        let question = try #require(sent.compactMap { sentRequest([$0]) }.first { $0.method == .options })
        let text = question.frame.bytes.string
        #expect(text.hasPrefix("OPTIONS sip:bob%0d%0aX@192.0.2.5;transport=tcp SIP/2.0\r\nVia: SIP/2.0/TCP "))
        #expect(!text.contains("pn-") && !text.contains("secret") && !text.contains("103"))
        #expect(question.from.uri.text.string == "sip:example.net" && question.maxForwards == 70)
    }
}

extension PhoneStory.Step {
    /// A call for which the phone gets a push and an OPTIONS request.
    fileprivate static var askingCall: Self { .call("100 invite > pbx", "push invite tok1", "options > 0") }

    /// The phone answers the latest OPTIONS on its first flow.
    fileprivate static func answersQuestion(_ status: Status, _ told: String...) -> Self {
        Self("\(status) to the question", told) { phone in
            guard let question = phone.questions.last else { return ["no question"] }
            return phone.said(
                phone.bench.receive(SIPText.response(status, to: question, tag: "q"), on: phone.flow(0)))
        }
    }
}

@Suite("Phones that do not answer a call that came with a push")
struct SilentPhoneTests {
    @Test(arguments: [
        PhoneStory(
            "the hold goes on, and ends when it would have ended", where: ringsLiveFlows, .register(), .ringing,
            .push(.accepted(nil)), .pass(29.9).times(5, "invite > 0"), .pass(0.2, "480 invite > pbx")),
        PhoneStory(
            "a dead token ends it", where: ringsLiveFlows, .register(), .ringing, .pass(4).times(3, "invite > 0"),
            .push(.tokenDead(since: nil), "480 invite > pbx")),
        PhoneStory(
            "also when the provider was quicker than the silence", where: ringsLiveFlows, .register(), .ringing,
            .push(.tokenDead(since: nil)), .pass(3.1, "invite > 0", "invite > 0", "480 invite > pbx")),
        PhoneStory(
            "it comes from elsewhere", where: ringsLiveFlows, .register(), .ringing, .push(.accepted(nil)),
            .pass(4).times(3, "invite > 0"), .register(at: 1, "invite > 1"), .answer(180, "180 invite > pbx"),
            .answer(200, "200 invite > pbx")),
        PhoneStory(
            "its late answer has the call, by the transaction that it had", where: ringsLiveFlows, .register(),
            .ringing, .push(.accepted(nil)), .pass(4).times(3, "invite > 0"), .answer(180, "180 invite > pbx"),
            .pass(40), .answer(200, "200 invite > pbx")),
        PhoneStory(
            "one that answers after the end is cancelled", where: ringsLiveFlows, .register(), .ringing,
            .push(.accepted(nil)), .pass(29.9).times(5, "invite > 0"), .pass(0.2, "480 invite > pbx"),
            .answer(180, "cancel > 0")),
        PhoneStory(
            "its connection breaks, and it comes by another", over: .tcp, where: ringsLiveFlows, .register(), .ringing,
            .push(.accepted(nil)), .pass(4), .closed(), .register(at: 1, "invite > 1"),
            .answer(200, "200 invite > pbx")),
        PhoneStory(
            "one that rings is not silent", where: ringsLiveFlows, .register(), .ringing, .push(.accepted(nil)),
            .answer(180, "180 invite > pbx"), .pass(40), .answer(200, "200 invite > pbx")),
    ])
    func `a phone that may sleep`(story: PhoneStory) { #expect(story.faults == []) }
}

private let ringsLiveFlows: @Sendable (inout ProxySettings) -> Void = { $0.call.ringLiveFlowWithin = .seconds(60) }

extension PhoneStory.Step {
    /// A call whose INVITE the phone gets immediately, together with a push.
    fileprivate static var ringing: Self { .call("100 invite > pbx", "push invite tok1", "invite > 0") }
}
