import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@Suite("Sources of a valid CANCEL (T22.5)")
struct CancelSourceTests {
    private static let eve = Endpoint(IPAddress(v4: 0xc633_6408), 5060)
    private static let stranger = Endpoint(IPAddress(v4: 0xc633_6407), 5060)

    /// Builds the CANCEL of an INVITE. Anybody who has seen the branch of the INVITE can write a CANCEL with the same
    /// branch.
    private func cancel(_ invite: [UInt8], extra: [String] = []) throws -> [UInt8] {
        SIPText.hopRequest("CANCEL", for: try #require(readRequest(invite)), extra: extra)
    }

    @Test(arguments: [false, true])
    func `a call of the PBX can be cancelled by the PBX, and by nobody else who has seen its branch`(isRinging: Bool)
        throws
    {
        let bench = EngineBench.registered { $0.trusted = ["10.0.0.2", "10.0.0.3"].compactMap { TrustedPeer($0) } }
        bench.invite()
        var ringing: SIPRequest?
        if isRinging {
            let invite = try #require(sentRequest(bench.register(cseq: 2)))
            ringing = invite
            bench.receive(SIPText.response(180, to: invite, tag: "b", contact: "sip:bob@192.0.2.5"))
        }
        let cancel = try cancel(bench.inviteText())
        // A CANCEL from a stranger or from the called phone does not end the call.
        for source in isRinging ? [Self.stranger, EngineBench.phone] : [Self.stranger] {
            let said = story(bench.receive(cancel, from: source))
            #expect(!said.contains { $0.hasPrefix("487") || $0.hasPrefix("cancel") || $0.hasPrefix("200") })
        }
        // The daemon must not treat the PBX's CANCEL as a retransmission of the strangers' CANCELs. If the PBX has
        // several trusted addresses, it may send the CANCEL from any of them.
        let other = Endpoint(IPAddress(v4: 0x0a00_0003), 5080)
        let said = story(bench.receive(cancel, from: other))
        #expect(said.contains("200 cancel > \(other)"))
        #expect(said.contains(isRinging ? "cancel > phone" : "487 invite > pbx"))
        if let ringing {
            let end = bench.receive(SIPText.response(487, to: ringing, tag: "b"))
            #expect(story(end).contains("487 invite > pbx"))
        }
    }

    @Test func `a phone's call is ended by the phone, also from where it is registered now`() throws {
        let moved = Endpoint(IPAddress(v4: 0xc000_0299), 41_000)
        for ends in [EngineBench.phone, moved] {
            let bench = EngineBench.authenticating { $0.upstream = nil }
            bench.receiveProvedRegister(as: "eve", token: "tok-eve", from: Self.eve)
            let text = bench.phoneText(to: "sip:eve@example.net")
            let challenge = try #require(sentResponse(bench.receive(text)))
            let invite = TestDigest.answer(challenge, to: text, as: "bob")
            #expect(story(bench.receive(invite)).contains("push invite tok-eve"))
            if ends == moved { bench.receiveProvedRegister(as: "bob", token: "tok-bob", from: moved) }
            let cancel = try cancel(invite)
            #expect(!story(bench.receive(cancel, from: Self.stranger)).contains { $0.hasPrefix("487") })
            // The daemon accepts a CANCEL from the address and port at which bob is registered, but not from another
            // port of that address.
            let beside = Endpoint(moved.address, 41_001)
            #expect(!story(bench.receive(cancel, from: beside)).contains { $0.hasPrefix("487") })
            let said = story(bench.receive(cancel, from: ends))
            #expect(said.contains { $0.hasPrefix("487 invite") })
        }
    }
}

extension EngineBench {
    /// Performs a whole registration with the password, which is the user's name spelled backwards.
    @discardableResult
    func receiveProvedRegister(as user: String, token: String, from source: Endpoint) -> [ProxyAction] {
        let text = registerText(user: user, token: token, callID: "r-\(user)", from: source)
        return commitAll(in: receiveProved(text, as: user, from: source))
    }
}
