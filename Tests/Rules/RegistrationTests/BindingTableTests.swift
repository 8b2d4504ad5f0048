import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@Suite("Binding table")
struct BindingTableTests {
    // MARK: Restart

    @Test func `a restored table is the one that was stored`() throws {
        var before = Registrar()
        try before.register(
            PhoneContact.fcm("t", after: ";q=0.4"), headers: ["Path: <sip:a@edge.test;lr>, <sip:b.test;lr>"],
            on: .phone(3, port: 999))
        try before.register(PhoneContact.ordinary(port: 7), callID: "desk", cseq: 9)
        let rows = before.rows(of: "bob")

        var after = Registrar()
        after.now = Moment(instant: Instant(nanoseconds: 77), date: before.now.date + .seconds(100))
        #expect(after.restore(rows) == [true, true])
        #expect(after.contacts() == before.contacts())
        #expect(after.bindings().map(\.id) == before.bindings().map(\.id))
        #expect(after.bindings().map(\.flow) == before.bindings().map(\.flow))
        #expect(after.bindings().map(\.q) == before.bindings().map(\.q))
        #expect(after.bindings().map(\.path) == before.bindings().map(\.path))
        #expect(
            after.bindings().map(\.freshUntil)
                == [Int64](repeating: 500, count: 2).map { after.now.instant + .seconds($0) })
        #expect(after.targets().map(\.kind) == before.targets().map(\.kind))
        // The ids of new bindings continue after the last stored id.
        let new = try after.register("<sip:bob@10.0.0.99>", callID: "new")
        #expect(new.refreshed.allSatisfy { id in rows.allSatisfy { $0.id < id } })
        // After a restart, the table still refuses a REGISTER with an older CSeq number.
        #expect(try after.register(PhoneContact.ordinary(port: 7), callID: "desk", cseq: 8).status == 500)
    }

    @Test func `an expired ordinary row is not restored, a push row is, if its provider is on`() throws {
        var before = Registrar()
        try before.register(PhoneContact.fcm("t"), user: "push", callID: "1")
        try before.register(PhoneContact.apple(), user: "apple", callID: "2")
        try before.register(PhoneContact.ordinary(), user: "desk", callID: "3")
        let rows = before.rows(of: "push", "apple", "desk")
        var after = Registrar(enabled: [.fcm])
        after.now = before.now
        after.advance(.seconds(601))
        #expect(after.restore(rows) == [true, false, false])
        #expect(after.bindings(of: "push").count == 1)
        #expect(after.table.count == 1)
        // The table does not use the ids of refused rows again, because waiting requests may still refer to them.
        #expect(after.table.nextID > (rows.map(\.id).max() ?? DeviceID(rawValue: 0)))
    }

    @Test func `a new run gives no id of an earlier one, even when no row is left`() throws {
        var before = Registrar()
        let old = try before.register(PhoneContact.fcm())
        try before.register("*", expires: 0, callID: "2")
        before.advance(.milliseconds(1))
        var after = Registrar(now: before.now)
        let new = try after.register(PhoneContact.fcm())
        #expect(zip(new.refreshed, old.refreshed).allSatisfy { $0 > $1 } && new.refreshed.count == 1)
        #expect(new.refreshed.allSatisfy { $0.rawValue < UInt64(Int64.max) })
    }

    @Test func `a contact that another proxy pushes for is ordinary after a restart, too`() throws {
        var before = Registrar()
        try before.register(PhoneContact.fcm(), headers: ["Feature-Caps: *;+sip.pns=\"fcm\""])
        let row = try #require(before.rows(of: "bob").first)
        #expect(!row.isPush)
        var after = Registrar()
        after.now = before.now
        #expect(after.restore([row]) == [true])
        #expect(after.targets().map(\.kind) == [.ordinary])
    }

    @Test func `a clock that was set back extends no registration`() throws {
        var before = Registrar()
        try before.register(PhoneContact.ordinary(), expires: 600)
        let row = try #require(before.rows(of: "bob").first)
        var after = Registrar()
        after.now = Moment(instant: before.now.instant, date: before.now.date + .seconds(-86_400))
        #expect(after.restore([row]) == [true])
        #expect(after.bindings().first?.freshUntil == after.now.instant + .seconds(600))
    }

    @Test(arguments: ["", "<", "<>", "sip:bob@h", "<sip:>", "<bob>", "\u{0}", "<sip:@>;a=\"", ";;;", "<sip:b@h"])
    func `a row that cannot be read is refused`(contact: String) {
        var registrar = Registrar()
        let row = StoredBinding(
            id: DeviceID(rawValue: 5), aor: .user("bob"), contact: ByteString(contact), callID: ByteString("c"),
            cseq: 1,
            path: [], flow: .phone(), granted: 600, freshUntil: registrar.now.date + .seconds(600),
            registeredAt: registrar.now.date, isPush: true)
        #expect(registrar.restore([row]) == [false])
        #expect(registrar.table.count == 0)
    }

    // MARK: Plans in flight

    @Test func `bindings of a plan cannot be removed until it is applied or cancelled`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(), expires: 60)
        let id = try #require(registrar.bindings().first?.id)
        registrar.advance(.milliseconds(59_999))
        let request = try registerRequest(contacts: [PhoneContact.ordinary()], cseq: 2)
        let plan = try registrar.plan(request)
        registrar.table.begin(plan)
        registrar.advance(.seconds(30))
        #expect(registrar.sweep(limit: 10).isEmpty)
        #expect(registrar.remove(id) == nil)
        registrar.table.apply(plan)
        #expect(registrar.bindings().map(\.id) == [id])
        #expect(registrar.remove(id) == .delete(id))
        #expect(registrar.remove(id) == nil)
    }

    @Test func `a cancelled plan changes nothing`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm(), expires: 60)
        let request = try registerRequest(
            contacts: [PhoneContact.ordinary(port: 1), PhoneContact.fcm(port: 2)], cseq: 2)
        let plan = try registrar.plan(request, on: .phone(5))
        registrar.table.begin(plan)
        registrar.table.cancel(plan)
        #expect(registrar.contacts() == [PhoneContact.fcm()])
        #expect(registrar.targets().map(\.flow) == [.phone()])
        let id = try #require(registrar.bindings().first?.id)
        #expect(registrar.remove(id) == .delete(id))
    }

    @Test func `two plans of different users never share an id`() throws {
        var registrar = Registrar()
        var ids: [DeviceID] = []
        var plans: [RegisterPlan] = []
        for user in ["a", "b", "c"] {
            let request = try registerRequest(contacts: [PhoneContact.ordinary()], user: user, callID: user)
            let plan = try registrar.plan(request, user: user)
            registrar.table.begin(plan)
            plans.append(plan)
            ids += plan.refreshed
        }
        #expect(Set(ids).count == 3)
        for plan in plans.reversed() { registrar.table.apply(plan) }
        #expect(["a", "b", "c"].flatMap { registrar.bindings(of: $0).map(\.id) } == ids)
    }

    // MARK: Expiry

    @Test func `refreshed bindings are not swept at their old deadline`() throws {
        var registrar = Registrar()
        for user in 0..<50 { try registrar.register(PhoneContact.ordinary(), user: "u\(user)", expires: 100) }
        registrar.advance(.seconds(90))
        for user in 0..<25 { try registrar.register(PhoneContact.ordinary(), user: "u\(user)", expires: 100, cseq: 2) }
        registrar.advance(.seconds(11))
        var swept: [BindingTable.Ended] = []
        while let next = registrar.table.nextExpiry, next <= registrar.now.instant {
            swept += registrar.sweep(limit: 7)
        }
        #expect(Set(swept.map(\.aor.user.string)) == Set((25..<50).map { "u\($0)" }))
        #expect(registrar.table.count == 25)
        registrar.advance(.seconds(90))
        #expect(registrar.sweep(limit: 100).count == 25)
        #expect(registrar.table.count == 0)
        #expect(registrar.table.nextExpiry == nil)
    }

    @Test func `a shorter time than before counts`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(), expires: 3600)
        try registrar.register(PhoneContact.ordinary(), expires: 60, cseq: 2)
        registrar.advance(.seconds(61))
        #expect(registrar.sweep(limit: 10).count == 1)
    }

    @Test func `a contact that turns into a push contact is not swept`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(), expires: 60)
        try registrar.register(PhoneContact.fcm(), cseq: 2)
        registrar.advance(.seconds(86_400))
        #expect(registrar.sweep(limit: 10).isEmpty)
        #expect(registrar.table.nextExpiry == nil)
    }

    // MARK: Look-ups

    @Test func `thousands of users are found by AOR and by id`() throws {
        var registrar = Registrar()
        var ids: [String: [DeviceID]] = [:]
        for round in 0..<3 {
            for user in 0..<1000 {
                let name = "user\(user)"
                let reply = try registrar.register(
                    PhoneContact.ordinary(port: 1000 + round), user: name, callID: "\(round)-\(user)")
                ids[name, default: []] += reply.refreshed
            }
        }
        #expect(registrar.table.count == 3000)
        for (name, expected) in ids {
            #expect(registrar.bindings(of: name).map(\.id) == expected)
            for id in expected { #expect(registrar.aor(of: id) == .user(name)) }
        }
        // The test removes every second user, so that entries also disappear in the middle and at the start of chains.
        for user in stride(from: 0, to: 1000, by: 2) {
            for id in ids["user\(user)"] ?? [] where registrar.remove(id) == nil { Issue.record("not removed") }
        }
        for user in 0..<1000 {
            #expect(registrar.isKnown("user\(user)") == (user % 2 == 1))
            if user % 2 == 1, let middle = ids["user\(user)"]?[user % 3] { _ = registrar.remove(middle) }
        }
        #expect(registrar.table.count == 1000)
        for user in stride(from: 1, to: 1000, by: 2) {
            var expected = ids["user\(user)"] ?? []
            expected.remove(at: user % 3)
            #expect(registrar.bindings(of: "user\(user)").map(\.id) == expected)
        }
    }

    /// The index grows and shrinks many times, and no removal may make other entries unreachable.
    @Test func `bindings that come and go in any order stay findable`() throws {
        var random = SeededGenerator(seed: 11)
        var registrar = Registrar()
        var ids: [Int: DeviceID] = [:]
        for _ in 0..<6000 {
            let user = Int.random(in: 0..<700, using: &random)
            if let id = ids.removeValue(forKey: user) {
                #expect(registrar.remove(id) == .delete(id))
            } else {
                let reply = try registrar.register(PhoneContact.ordinary(), user: "u\(user)", callID: "c")
                ids[user] = reply.refreshed.first
            }
        }
        #expect(registrar.table.count == ids.count)
        for user in 0..<700 { #expect(registrar.bindings(of: "u\(user)").map(\.id) == [ids[user]].compactMap { $0 }) }
    }

    // MARK: Fork targets

    @Test func `targets come by q, then by the time of their last REGISTER`() throws {
        var registrar = Registrar()
        for (port, q) in [(1, "0.5"), (2, "1.0"), (3, "0.5"), (4, "0.9")] {
            try registrar.register(PhoneContact.ordinary(port: port, after: ";q=\(q)"), callID: "\(port)")
            registrar.advance(.seconds(1))
        }
        #expect(registrar.targets().map(\.requestURI.string) == [2, 4, 3, 1].map { "sip:bob@10.0.0.5:\($0)" })
    }

    @Test func `the Request-URI has no push parameters, method or headers`() throws {
        var registrar = Registrar()
        try registrar.register(
            "<sip:b;x=1@h.test:5070;transport=tcp;PN-Prid=s;pn-provider=fcm;%70n-silent=1;method=BYE;ob;line=7?Route=%3Csip:e%3E>"
        )
        #expect(registrar.targets().map(\.requestURI.string) == ["sip:b;x=1@h.test:5070;transport=tcp;ob;line=7"])
    }

    @Test func `contacts that are no SIP URIs are left out`() throws {
        var registrar = Registrar()
        try registrar.register(
            "<sip:bob@10.0.0.5>;reg-id=2;+sip.instance=\"<urn:uuid:AA>\"", "<tel:+15551234>", "<mailto:bob@h.test>")
        #expect(registrar.bindings().count == 3)
        #expect(registrar.targets().map(\.requestURI.string) == ["sip:bob@10.0.0.5"])
    }
}

@Suite("Contacts whose connection has ended")
struct ClosedFlowTests {
    private static func connection(_ number: UInt64, _ host: UInt32 = 3) -> Flow {
        Flow(
            transport: .tcp, listener: 1, connection: number,
            remote: Endpoint(IPAddress(v4: 0xc000_0200 | host), 4000))
    }

    @Test func `the contacts of a connection end with it, and no others`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm("a"), user: "a", callID: "1", on: Self.connection(7))
        try registrar.register(PhoneContact.fcm("b"), user: "b", callID: "2", on: Self.connection(7))
        try registrar.register(PhoneContact.fcm("c"), user: "c", callID: "3", on: Self.connection(8))
        try registrar.register(PhoneContact.fcm("d"), user: "d", callID: "4")
        registrar.table.flowClosed(Self.connection(7))
        #expect(["a", "b", "c", "d"].map { registrar.targets(of: $0)[0].flow.isClosed } == [true, true, false, false])
        #expect(registrar.targets(of: "a")[0].flow.remote == Self.connection(7).remote)
        registrar.table.flowClosed(.phone())
        #expect(!registrar.targets(of: "d")[0].flow.isClosed)
    }

    @Test func `a phone that is back on another connection does not end with the first one`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm("a"), user: "a", callID: "1", on: Self.connection(7))
        try registrar.register(PhoneContact.fcm("a"), user: "a", callID: "2", on: Self.connection(8))
        registrar.table.flowClosed(Self.connection(7))
        #expect(!registrar.targets(of: "a")[0].flow.isClosed)
        registrar.table.flowClosed(Self.connection(8))
        #expect(registrar.targets(of: "a")[0].flow.isClosed)
        try registrar.register(PhoneContact.fcm("a"), user: "a", callID: "3", on: Self.connection(9))
        #expect(!registrar.targets(of: "a")[0].flow.isClosed)
    }

    @Test func `after a restart no old connection is taken for a new one`() throws {
        var before = Registrar()
        try before.register(PhoneContact.fcm("a"), user: "a", callID: "1", on: Self.connection(7))
        try before.register(PhoneContact.fcm("d"), user: "d", callID: "4")
        var after = Registrar()
        after.now = before.now
        _ = after.restore(before.rows(of: "a", "d"))
        #expect(["a", "d"].map { after.targets(of: $0)[0].flow.isClosed } == [true, false])
    }
}
