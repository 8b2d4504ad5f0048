import Addressing
import Bytes
import Registration
import SIPGrammar
import Testing
import Timekeeping

/// Tests an attacker with a second socket and eve's password or none, who has seen bob's registration.
@Suite("Registration hijack (T5)")
struct HijackTests {
    @Test(arguments: Shape.allCases)
    func `an attack with captured credentials does not change bob's binding`(shape: Shape) throws {
        var registrar = Registrar()
        var gate = Gate()
        let captured = DigestClient().answer(gate.challenge())
        let own = try registerRequest(contacts: [PhoneContact.fcm()], callID: "bob", cseq: 20, headers: [captured])
        #expect(gate.check(own) == .passed("bob"))
        try registrar.receive(own)

        let attack = try shape.request(captured, &gate)
        if case .passed = gate.check(attack, on: .phone(66)) { try registrar.receive(attack, on: .phone(66)) }
        #expect(registrar.contacts() == [PhoneContact.fcm()])
        #expect(registrar.targets().map(\.flow) == [.phone()])
        // Even with a login, the attacker would be refused for bob's Call-ID with an old CSeq.
        if attack.callID == own.callID, attack.cseq.number <= 20 {
            try registrar.receive(attack, on: .phone(66))
            #expect(registrar.contacts() == [PhoneContact.fcm()])
            #expect(registrar.targets().map(\.flow) == [.phone()])
        }
    }

    enum Shape: CaseIterable {
        case newContact, signOut, star, replayed, replayedWithNewContact, asEve, lowerCSeq, equalCSeq, forgedNonce
        case otherRealm

        func request(_ captured: String, _ gate: inout Gate) throws -> SIPRequest {
            let mine = "<sip:bob@203.0.113.66:5060>"
            switch self {
            case .newContact: return try registerRequest(contacts: [mine], callID: "mine")
            case .signOut: return try registerRequest(contacts: [PhoneContact.fcm()], expires: 0, callID: "mine")
            case .star: return try registerRequest(contacts: ["*"], expires: 0, callID: "mine")
            case .replayed:
                return try registerRequest(contacts: [PhoneContact.fcm()], callID: "bob", cseq: 20, headers: [captured])
            case .replayedWithNewContact:
                return try registerRequest(contacts: [mine], callID: "bob", cseq: 21, headers: [captured])
            case .asEve:
                let row = DigestClient(name: "eve", password: "evil").answer(gate.challenge())
                return try registerRequest(contacts: [mine], callID: "mine", headers: [row])
            case .lowerCSeq: return try registerRequest(contacts: [mine], callID: "bob", cseq: 19, headers: [captured])
            case .equalCSeq:
                return try registerRequest(contacts: ["*"], expires: 0, callID: "bob", cseq: 20, headers: [captured])
            case .forgedNonce:
                let row = DigestClient().answer(nonce: "00", realm: "pn.test", count: "1", cnonce: "x")
                return try registerRequest(contacts: [mine], callID: "mine", headers: [row])
            case .otherRealm:
                let row = DigestClient().answer(gate.challenge(), realm: "evil.test")
                return try registerRequest(contacts: [mine], callID: "mine", headers: [row])
            }
        }
    }
}
