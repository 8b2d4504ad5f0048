import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Testing
import Timekeeping

@Suite("Several flows of one device (RFC 5626)")
struct FlowTests {
    private static let outbound = ["Supported: path, outbound"]

    private static func flow(_ number: Int, _ token: String? = "tok-1", instance: Int = 1, port: Int = 5060) -> String {
        let after = PhoneContact.instance(instance) + ";reg-id=\(number)"
        return token.map { PhoneContact.fcm($0, port: port, after: after) }
            ?? PhoneContact.ordinary(port: port, after: after)
    }

    /// Makes a registrar in which bob's phone has two flows from two addresses.
    private func twoFlows(_ token: String? = "tok-1") throws -> Registrar {
        var registrar = Registrar()
        try registrar.register(Self.flow(1, token), callID: "one", headers: Self.outbound, on: .phone(1))
        registrar.advance(.seconds(1))
        try registrar.register(Self.flow(2, token), callID: "two", headers: Self.outbound, on: .phone(2))
        return registrar
    }

    // MARK: Separate contacts

    @Test(arguments: ["tok-1", nil])
    func `two flows of one device, with one token and one URI, are two contacts`(token: String?) throws {
        var registrar = try twoFlows(token)
        #expect(registrar.bindings().map(\.flow) == [.phone(1), .phone(2)])
        let again = try registrar.register(
            Self.flow(1, token), callID: "one", cseq: 2, headers: Self.outbound, on: .phone(1))
        #expect(again.contacts.count == 2)
        #expect(again.values("Require") == ["outbound"])
        #expect(again.removed == [])
    }

    @Test func `a REGISTER with the same reg-id replaces the flow`() throws {
        var registrar = try twoFlows()
        let first = registrar.bindings()[0].id
        let reply = try registrar.register(
            Self.flow(1, "tok-9", port: 7777), callID: "other", headers: Self.outbound, on: .phone(3))
        #expect(reply.refreshed == [first])
        #expect(registrar.bindings().map(\.flow) == [.phone(3), .phone(2)])
    }

    @Test func `flows that register at the same time under one Call-ID may overtake each other`() throws {
        var registrar = Registrar()
        try registrar.register(Self.flow(2), callID: "one", cseq: 6, headers: Self.outbound, on: .phone(2))
        let late = try registrar.register(Self.flow(1), callID: "one", cseq: 5, headers: Self.outbound, on: .phone(1))
        #expect(late.status == 200)
        #expect(registrar.bindings().count == 2)
        // The registrar refuses an older REGISTER of the same flow, because a newer REGISTER has overtaken it.
        #expect(try registrar.register(Self.flow(2), callID: "one", cseq: 5, headers: Self.outbound).status == 500)
    }

    @Test func `the reg-id of a client without outbound support is ignored`() throws {
        var registrar = Registrar()
        let first = try registrar.register(Self.flow(1), callID: "one", on: .phone(1))
        #expect(first.values("Require") == [])
        let second = try registrar.register(Self.flow(2), callID: "two", on: .phone(2))
        #expect(second.refreshed == first.refreshed)
        #expect(registrar.contacts() == [PhoneContact.fcm(after: PhoneContact.instance(1))])
    }

    @Test(arguments: ["0", "2147483648", "-1", "x", ""])
    func `an invalid number makes no flow`(number: String) throws {
        var registrar = Registrar()
        let contact = PhoneContact.fcm(after: PhoneContact.instance(1) + ";reg-id=\(number)")
        #expect(try registrar.register(contact, headers: Self.outbound).values("Require") == [])
    }

    @Test func `an instance that many phones share makes no flows`() throws {
        var registrar = Registrar()
        let zeros = ";+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-0000a1b2c3d4>\";reg-id=1"
        for port in 1...2 {
            try registrar.register(
                PhoneContact.fcm("tok\(port)", port: port, after: zeros), callID: "c\(port)", headers: Self.outbound)
        }
        #expect(registrar.bindings().count == 2)
    }

    @Test func `a phone that stops to use flows has one contact again`() throws {
        var registrar = try twoFlows()
        try registrar.register(PhoneContact.fcm(after: PhoneContact.instance(1)), callID: "three", on: .phone(3))
        #expect(registrar.bindings().map(\.flow) == [.phone(3)])
    }

    @Test func `a phone that starts to use flows leaves no old contact`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(after: PhoneContact.instance(1)), callID: "old")
        try registrar.register(Self.flow(1, nil, port: 9), callID: "new", headers: Self.outbound, on: .phone(1))
        #expect(registrar.bindings().map(\.flow) == [.phone(1)])
    }

    @Test func `a setting adds Flow-Timer to the 200`() throws {
        var registrar = try twoFlows()
        func refresh(_ cseq: Int) throws -> [String] {
            try registrar.register(
                Self.flow(2), callID: "two", cseq: cseq, headers: Self.outbound, on: .phone(2)
            ).values("Flow-Timer")
        }
        #expect(try refresh(2) == [])
        registrar.settings.flowTimer = .seconds(120)
        #expect(try refresh(3) == ["120"])
        #expect(try registrar.register(PhoneContact.fcm("other"), callID: "x").values("Flow-Timer") == [])
        // Flow-Timer is not for phones behind an edge proxy, because only the edge proxy receives their keep-alives.
        let behind = ["Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bKp", "Path: <sip:tok@edge.test;lr;ob>"]
        let edge = try registrar.register(Self.flow(3), callID: "three", headers: Self.outbound + behind)
        #expect(edge.values("Require") == ["outbound"] && edge.values("Flow-Timer") == [])
    }

    // MARK: Refusals

    @Test(arguments: [
        (["Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bKp"], 439),
        (["Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bKp", "Path: <sip:edge.test;lr>"], 439),
        (["Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bKp", "Path: <sip:far.test;lr;ob>, <sip:edge.test;lr>"], 439),
        (["Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bKp", "Path: <sip:tok@edge.test;lr;ob>"], 200),
        (["Path: <sip:far.test;lr>, <sip:tok@edge.test;lr;ob>"], 200),
    ])
    func `a flow is accepted only if the first Path has ob`(rows: [String], status: Int) throws {
        var registrar = Registrar()
        let reply = try registrar.register(Self.flow(1), headers: Self.outbound + rows)
        #expect(Int(reply.status.code) == status)
        #expect(registrar.bindings().count == (status == 200 ? 1 : 0))
    }

    @Test func `a contact without reg-id needs no first hop with ob`() throws {
        var registrar = Registrar()
        let reply = try registrar.register(
            PhoneContact.fcm(after: PhoneContact.instance(1)),
            headers: Self.outbound + ["Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bKp"])
        #expect(reply.status == 200)
    }

    @Test func `a REGISTER may register only one flow`() throws {
        var registrar = Registrar()
        #expect(try registrar.register(Self.flow(1), Self.flow(2), headers: Self.outbound).status == 400)
        #expect(registrar.bindings().isEmpty)
    }

    // MARK: The device

    @Test func `it is called as one, by the flow that registered last`() throws {
        let registrar = try twoFlows()
        let targets = registrar.targets()
        #expect(targets.map(\.flow) == [.phone(2)])
        #expect(targets.map(\.id) == [registrar.bindings()[0].id])
        #expect(targets.map(\.binding) == [registrar.bindings()[1].id])
    }

    @Test func `a flow that has failed comes last until it registers again`() throws {
        var registrar = try twoFlows()
        registrar.table.flowFailed(registrar.bindings()[1].id)
        #expect(registrar.targets().map(\.flow) == [.phone(1)])
        registrar.advance(.seconds(1))
        try registrar.register(Self.flow(2), callID: "two", cseq: 2, headers: Self.outbound, on: .phone(2))
        #expect(registrar.targets().map(\.flow) == [.phone(2)])
    }

    @Test func `two devices of a user stay two`() throws {
        var registrar = try twoFlows()
        try registrar.register(
            Self.flow(1, "tok-2", instance: 2), callID: "three", headers: Self.outbound, on: .phone(3))
        #expect(Set(registrar.targets().map(\.flow)) == [.phone(2), .phone(3)])
    }

    @Test func `a flow that signs out leaves the others, and the last one ends the device`() throws {
        var registrar = try twoFlows()
        let ids = registrar.bindings().map(\.id)
        let out = try registrar.register(
            Self.flow(1), expires: 0, callID: "one", cseq: 2, headers: Self.outbound, on: .phone(1))
        #expect(out.removed == [ids[0]])
        #expect(registrar.table.takeSuccessor(of: ids[0]) == ids[1])
        #expect(registrar.targets().map(\.id) == [ids[1]])
        let last = try registrar.register(
            Self.flow(2), expires: 0, callID: "two", cseq: 2, headers: Self.outbound, on: .phone(2))
        #expect(last.removed == [ids[1]])
        #expect(registrar.table.takeSuccessor(of: ids[1]) == nil)
    }

    @Test func `a star removes all of them, and none of their calls is inherited`() throws {
        var registrar = try twoFlows()
        let ids = registrar.bindings().map(\.id)
        try registrar.register("*", expires: 0, callID: "one", cseq: 2)
        #expect(ids.allSatisfy { registrar.table.takeSuccessor(of: $0) == nil })
    }

    @Test func `the third inherits when one REGISTER signs the first two out`() throws {
        var registrar = try twoFlows()
        try registrar.register(Self.flow(3), callID: "three", headers: Self.outbound, on: .phone(3))
        let ids = registrar.bindings().map(\.id)
        try registrar.register(
            Self.flow(1), Self.flow(2), expires: 0, callID: "out", headers: Self.outbound, on: .phone(1))
        #expect(registrar.bindings().map(\.id) == [ids[2]])
        #expect(registrar.table.takeSuccessor(of: ids[0]) == ids[2])
    }

    @Test func `flows remain flows after a restart`() throws {
        let rows = try twoFlows().rows(of: "bob")
        var registrar = Registrar()
        #expect(registrar.restore(rows.reversed()) == [true, true])
        #expect(registrar.targets().map(\.id) == [rows[0].id])
        #expect(registrar.table.flows(of: rows[1].id, now: registrar.now.instant).count == 2)
    }

    @Test func `a refresh gets Require outbound only if the refresh supports outbound`() throws {
        var registrar = try twoFlows()
        let refresh = try registrar.register(
            Self.flow(2), callID: "two", cseq: 2, headers: Self.outbound, on: .phone(2))
        #expect(!refresh.isPersisted)
        #expect(refresh.values("Require") == ["outbound"])
        let without = try registrar.register(Self.flow(2), callID: "two", cseq: 3, on: .phone(2))
        #expect(without.values("Require") == [])
        #expect(registrar.bindings().count == 1)
    }

    // MARK: GRUU

    @Test func `a contact that is the user's own GRUU is refused`() throws {
        var registrar = Registrar()
        #expect(try registrar.register("<sip:bob@pn.test;gr=urn:uuid:1>").status == 403)
        #expect(try registrar.register("<sip:bob@10.0.0.5;gr=urn:uuid:1>").status == 200)
    }
}
