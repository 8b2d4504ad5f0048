import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Settings
import Testing
import Timekeeping

private let hex = "51d97df57d8914fd5b5b04b9811ff019e2c4d6198007608ca6bd448f4c3192b6"
/// The token `hex` in base64.
private let calls = "Udl99X2JFP1bWwS5gR/wGeLE1hmAB2CMpr1Ej0wxkrY="
/// A second token in base64: 32 bytes with the value 1.
private let messages = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
private let messagesHex = String(repeating: "01", count: 32)

private func told(
    calls: String? = nil, other: String? = nil, selector: String = "S:1", app: String? = "com.ex.app",
    form: ReportedTokens.Form = .direct
) -> ReportedTokens {
    ReportedTokens(
        form: form,
        calls: .init(token: calls.map { ByteString($0) }, appID: calls == nil ? nil : app.map { ByteString($0) }),
        other: .init(token: other.map { ByteString($0) }, appID: other == nil ? nil : app.map { ByteString($0) }),
        selector: ByteString(selector))
}

extension Registrar {
    /// Performs the report of a device, as if the store had written it.
    @discardableResult
    fileprivate mutating func report(_ device: ReportedDevice, user: String = "bob") throws -> RegisterPlan {
        guard case .accepted(let plan) = processor.plan(device, for: .user(user), in: table, now: now) else {
            throw Refused()
        }
        if !plan.persist.isEmpty { table.begin(plan) }
        table.apply(plan)
        return plan
    }

    @discardableResult
    fileprivate mutating func report(_ told: ReportedTokens, user: String = "bob") throws -> RegisterPlan {
        try report(ReportedDevice(told), user: user)
    }

    /// Removes the selected devices of a user, and returns their number.
    fileprivate mutating func withdraw(_ selection: DeviceSelection, user: String = "bob") -> Int {
        let plan = processor.plan(removing: selection, of: .user(user), in: table, now: now)
        if !plan.persist.isEmpty { table.begin(plan) }
        table.apply(plan)
        return plan.removed.count
    }

    fileprivate func tokens(of user: String = "bob") -> [String] {
        var tokens: [String] = []
        for binding in bindings(of: user) {
            guard let token = table.pushToken(of: binding.id) else { continue }
            tokens.append("\(token.provider.rawValue) \(token.param) \(token.prid)")
        }
        return tokens
    }
}

@Suite("Reports of devices at push servers that phones choose (T46.7)")
struct ReportedChosenHostTests {
    private static let keys = String(repeating: "A", count: 87) + "." + String(repeating: "A", count: 22)

    private func device(_ number: Int, at host: String) -> ReportedDevice {
        let token = PushToken(
            provider: .webPush, param: ByteString(Self.keys), prid: ByteString("https://\(host)/\(number)"))
        return ReportedDevice(token: token, label: ByteString("S:\(number)"))
    }

    @Test func `reports and registrations count together`() throws {
        var registrar = Registrar(enabled: [.webPush])
        let yaml = "webpush: { hosts: [push.example.net], any-host: true }"
        registrar.settings.push = PushAcceptance(try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml"))
        for number in 1...4 { try registrar.report(device(number, at: "up\(number).example")) }
        #expect(throws: Refused.self) { try registrar.report(device(5, at: "up5.example")) }
        let contact = "<sip:bob@10.0.0.6;pn-provider=webpush;pn-param=\(Self.keys);pn-prid=https%3A//up6.example/6>"
        #expect(try registrar.register(contact).status == 555)
        // A known server, a listed server and another user are accepted, and a device can move to another server.
        try registrar.report(device(7, at: "up1.example"))
        try registrar.report(device(8, at: "push.example.net"))
        try registrar.report(device(9, at: "up9.example"), user: "carol")
        try registrar.report(device(2, at: "up5.example"))
        #expect(throws: Refused.self) { try registrar.report(device(10, at: "up2.example")) }
        #expect(registrar.tokens().count == 6)
    }
}

@Suite("Reports of a device with several flows (RFC 5626)")
struct ReportedFlowTests {
    private func twoFlows() throws -> Registrar {
        var registrar = Registrar()
        for number in 1...2 {
            try registrar.register(
                PhoneContact.fcm(after: PhoneContact.instance(1) + ";reg-id=\(number)"), callID: "f\(number)",
                headers: ["Supported: outbound"], on: .phone(UInt32(number)))
        }
        return registrar
    }

    @Test func `a new token is the token of all of them`() throws {
        var registrar = try twoFlows()
        try registrar.report(
            ReportedDevice(
                token: PushToken(provider: .fcm, param: ByteString("proj"), prid: ByteString("tok-1")),
                label: ByteString("S:1")))
        let plan = try registrar.report(
            ReportedDevice(
                token: PushToken(provider: .fcm, param: ByteString("proj"), prid: ByteString("tok-2")),
                label: ByteString("S:1")))
        #expect(plan.removed == [])
        #expect(registrar.tokens() == ["fcm proj tok-2", "fcm proj tok-2"])
        #expect(registrar.targets().count == 1)
    }

    @Test(arguments: [0, 1])
    func `a device is withdrawn with all its flows, by the number of any`(place: Int) throws {
        var registrar = try twoFlows()
        #expect(registrar.withdraw(.device(registrar.bindings()[place].id)) == 2)
        #expect(registrar.bindings().isEmpty)
    }
}

@Suite("Devices known by REGISTER and by report are the same")
struct ReportedDeviceTests {
    private static func contact(_ parameters: String, port: Int = 5060) -> String {
        "<sip:bob@10.0.0.5:\(port);\(parameters)>"
    }

    /// The push parameters that phones write for the device whose report has the token `calls`. The last entries of the list also have
    /// the token `messages`.
    private static let spellings = [
        "pn-provider=apns;pn-param=ABCD1234.com.ex.app.voip;pn-prid=\(hex)",
        "pn-provider=apns;pn-param=ABCD1234.com.ex.app.voip;pn-prid=\(hex.uppercased()):voip",
        "pn-provider=apns;pn-param=TEAM.com.ex.app.voip;pn-prid=\(hex):voip",
        "pn-provider=apns.dev;pn-param=ABCD1234.com.ex.app.voip;pn-prid=\(hex):voip",
        "pn-provider=apns;pn-param=ABCD1234.com.ex.app.voip&remote;pn-prid=\(messagesHex):remote&\(hex):voip",
    ]

    @Test(arguments: spellings)
    func `a reported device that registers keeps its number, with any spelling`(parameters: String) throws {
        var registrar = Registrar(enabled: [.apns, .apnsDevelopment])
        try registrar.report(told(calls: calls))
        let id = try #require(registrar.bindings().first?.id)
        let reply = try registrar.register(Self.contact(parameters))
        #expect(reply.refreshed == [id] && registrar.bindings().count == 1)
        #expect(registrar.targets().map(\.isReachable) == [true])
        // The phone registers from another address, after a restart, and from a third address.
        for (number, port) in [(2, 6000), (3, 6000), (4, 7000)] {
            let again = try registrar.register(Self.contact(parameters, port: port), callID: "c\(number)")
            #expect(again.refreshed == [id] && registrar.bindings().count == 1)
        }
    }

    @Test(arguments: spellings)
    func `a registered device that is reported keeps its number, and its notation if possible`(
        parameters: String
    ) throws {
        var registrar = Registrar(enabled: [.apns, .apnsDevelopment])
        let first = try registrar.register(Self.contact(parameters))
        let before = registrar.tokens()
        try registrar.report(told(calls: calls))
        #expect(registrar.tokens() == before)
        #expect(registrar.bindings().map(\.id) == first.refreshed)
        // The phone's next REGISTER still finds the device, although the report adds a token that the REGISTER does not
        // contain.
        try registrar.report(told(other: messages))
        let again = try registrar.register(Self.contact(parameters, port: 6000), callID: "restart")
        #expect(again.refreshed == first.refreshed && registrar.bindings().count == 1)
        #expect(registrar.withdraw(.told(told())) == 1)
    }

    @Test func `a registered device is removed only by its selector`() throws {
        for isReportedFirst in [true, false] {
            var registrar = Registrar(enabled: [.apns])
            if isReportedFirst { try registrar.report(told(calls: calls)) }
            for cseq in 1...2 { try registrar.register(Self.contact(Self.spellings[2]), cseq: cseq) }
            if !isReportedFirst { try registrar.report(told(calls: calls)) }
            for cseq in 3...4 { try registrar.register(Self.contact(Self.spellings[2]), cseq: cseq) }
            #expect(registrar.withdraw(.told(told(selector: "S:2"))) == 0)
            #expect(registrar.withdraw(.told(told())) == 1)
        }
    }

    @Test func `a refresh of a reported device writes nothing`() throws {
        var registrar = Registrar(enabled: [.apns])
        try registrar.report(told(calls: calls))
        let first = try registrar.register(Self.contact(Self.spellings[0]))
        #expect(first.isPersisted)
        let second = try registrar.register(Self.contact(Self.spellings[0]), cseq: 2)
        #expect(!second.isPersisted && second.bookkeeping == first.refreshed)
    }

    @Test func `phones do not see reported tokens`() throws {
        var registrar = Registrar(enabled: [.apns, .fcm])
        try registrar.report(told(calls: calls))
        try registrar.report(told(other: "VG9r", selector: "S:2"))
        let own = Self.contact(Self.spellings[0])
        for cseq in 1...2 {
            let reply = try registrar.register(own, cseq: cseq)
            #expect(reply.contacts == [own + ";expires=600"])
        }
        let other = try registrar.register("<sip:bob@10.0.0.6>;+sip.instance=\"<urn:uuid:1>\"", callID: "desk")
        #expect(other.contacts.count == 2)
        #expect(!other.contacts.contains { $0.contains("reported") || $0.contains("S:") || $0.contains("label") })
        #expect(other.contacts.contains { $0.contains("+sip.instance") })
    }

    @Test func `a sign-out in another notation removes it`() throws {
        var registrar = Registrar(enabled: [.apns])
        try registrar.register(Self.contact(Self.spellings[0]))
        try registrar.report(told(calls: calls, other: messages))
        let reply = try registrar.register(Self.contact(Self.spellings[0], port: 6000), expires: 0, callID: "other")
        #expect(reply.removed.count == 1 && registrar.bindings().isEmpty)
    }

    @Test func `a device that was never reported keeps its own spelling`() throws {
        var registrar = Registrar(enabled: [.apns])
        try registrar.register(Self.contact(Self.spellings[0]))
        try registrar.register(Self.contact(Self.spellings[2], port: 6000), callID: "other")
        #expect(registrar.bindings().count == 2)
    }

    @Test func `two that turn out to be one become one`() throws {
        var registrar = Registrar(enabled: [.apns])
        try registrar.register(Self.contact(Self.spellings[0]))
        try registrar.register(Self.contact(Self.spellings[2], port: 6000), callID: "other")
        try registrar.report(told(calls: calls))
        #expect(registrar.bindings().count == 1)
    }

    @Test func `a device is restored with its selector`() throws {
        var registrar = Registrar(enabled: [.apns])
        try registrar.report(told(calls: calls, selector: "S:1;\"x y\""))
        try registrar.register(Self.contact(Self.spellings[0]))
        var second = Registrar(enabled: [.apns], now: registrar.now)
        #expect(second.restore(registrar.rows(of: "bob")) == [true])
        #expect(second.withdraw(.told(told(selector: "S:1"))) == 0)
        #expect(second.withdraw(.told(told(selector: "S:1;\"x y\""))) == 1)
    }

    // MARK: The mediator's

    @Test func `an account of the mediator is identified by its selector, from a report or a REGISTER`() throws {
        var registrar = Registrar(enabled: [.acrobits])
        let first = try registrar.register(Self.contact("pn-provider=acrobits;pn-param=app:S%3A1;pn-prid=old"))
        try registrar.report(told(other: "new", app: "app", form: .acrobits))
        #expect(registrar.bindings().map(\.id) == first.refreshed)
        #expect(registrar.tokens() == ["acrobits app:S:1 new"])
        // The device of the new selector takes over the token of the old selector's device.
        try registrar.report(told(calls: "late", other: "new", selector: "S:2", app: "app", form: .acrobits))
        #expect(registrar.tokens() == ["acrobits app&app:S:2 late:calls&new:other"])
    }

    // MARK: Removal

    @Test(arguments: [
        // The report finds the device by one of its two push tokens or by the selector, because the daemon knows all
        // three.
        (told(calls: calls, other: messages, selector: "S:1"), 1), (told(selector: "S:1"), 1),
        (told(calls: calls, selector: ""), 1), (told(other: messages, selector: ""), 1),
        // The known token for messages identifies the device even if it is reported as a token for calls.
        (told(calls: messages, selector: ""), 1), (told(other: "VG9r", selector: ""), 0),
        (told(selector: "S:2"), 0), (told(calls: calls, selector: "S:2"), 0), (told(other: "VG9r", selector: "S:1"), 1),
        (told(selector: ""), 0),
    ])
    func `a removal means the selector, or else a token`(removal: ReportedTokens, count: Int) throws {
        var registrar = Registrar(enabled: [.apns])
        try registrar.report(told(calls: calls, other: messages))
        #expect(registrar.withdraw(.told(removal), user: "eve") == 0)
        #expect(registrar.withdraw(.told(removal)) == count)
        #expect(registrar.withdraw(.told(removal)) == 0)
    }

    @Test func `a device without a selector is removed by a token, with any selector`() throws {
        var registrar = Registrar(enabled: [.apns])
        try registrar.report(told(calls: calls, selector: ""))
        #expect(registrar.withdraw(.told(told(other: messages, selector: "S:1"))) == 0)
        #expect(registrar.withdraw(.told(told(calls: calls, selector: "S:1"))) == 1)
    }

    // MARK: By an application server

    @Test func `a server that knows one of two tokens means the same device`() throws {
        let remote = PushToken(
            provider: .apns, param: ByteString("TEAM1.com.ex.app"), prid: ByteString(messagesHex.uppercased()))
        for isReportedFirst in [true, false] {
            var registrar = Registrar(enabled: [.apns])
            if isReportedFirst { try registrar.report(ReportedDevice(token: remote, label: .empty)) }
            try registrar.register(Self.contact(Self.spellings[4]))
            let before = registrar.tokens()
            try registrar.report(ReportedDevice(token: remote, label: .empty))
            #expect(registrar.bindings().count == 1)
            // A report of an application server does not change a device that has registered.
            #expect(registrar.tokens() == before)
            #expect(registrar.withdraw(.token(ByteString("AA"))) == 0)
            #expect(registrar.withdraw(.token(remote.prid)) == 1)
        }
    }

    @Test func `a server may name another app for a device that never registered`() throws {
        var registrar = Registrar()
        for param in ["old", "new"] {
            try registrar.report(
                ReportedDevice(
                    token: PushToken(provider: .fcm, param: ByteString(param), prid: ByteString("t")), label: .empty))
        }
        #expect(registrar.tokens() == ["fcm new t"])
    }
}
