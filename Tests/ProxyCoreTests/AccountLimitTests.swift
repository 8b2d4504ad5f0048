import Addressing
import Bytes
import ProxyCore
import Registration
import Testing
import TestSupport
import Timekeeping

@Suite("What one account may hold, and whom it may wake (T11)")
struct AccountLimitTests {
    /// A call to somebody; from a phone when an address is given, else from the PBX.
    private func call(
        _ bench: EngineBench, to user: String, number: Int, from phone: Endpoint? = nil, caller: String = "103",
        body: Int = 0
    ) -> [String] {
        let source = phone ?? EngineBench.pbx
        let text = SIPText.invite(
            to: user, from: caller, at: source, callID: "call\(number)", branch: "i\(number)",
            extra: body > 0 ? ["Subject: \(String(repeating: "x", count: body))"] : [])
        return story(bench.receive(text, from: source))
    }

    private func registered(_ users: String..., change: @escaping (inout ProxySettings) -> Void) -> EngineBench {
        let bench = EngineBench(change)
        for user in users {
            bench.register(user: user, token: "token-\(user)", callID: "r-\(user)")
        }
        return bench
    }

    @Test func `calls to one user leave room for calls to others`() {
        let bench = registered("bob", "carol") { $0.limits.callsPerAccount = 3 }
        for number in 0..<3 {
            #expect(call(bench, to: "bob", number: number) == ["100 invite > pbx", "push invite token-bob"])
        }
        #expect(call(bench, to: "bob", number: 3) == ["486 invite > pbx"])
        #expect(call(bench, to: "carol", number: 4) == ["100 invite > pbx", "push invite token-carol"])
        // What is over makes room.
        _ = bench.pass(.seconds(40))
        #expect(call(bench, to: "bob", number: 5) == ["100 invite > pbx", "push invite token-bob"])
    }

    @Test func `one caller leaves room for others, whatever its From says`() {
        let bench = registered("bob", "carol", "dave") {
            $0.limits.callsPerAccount = 2
            $0.call.pushesPerDevice = 0
        }
        let caller = Endpoint(IPAddress(v4: 0xc633_6401), 5060)
        let other = Endpoint(IPAddress(v4: 0xc633_6402), 5060)
        #expect(call(bench, to: "bob", number: 0, from: caller, caller: "a").contains("push invite token-bob"))
        #expect(call(bench, to: "carol", number: 1, from: caller, caller: "b").contains("push invite token-carol"))
        #expect(call(bench, to: "dave", number: 2, from: caller, caller: "c") == ["503 invite > \(caller)"])
        #expect(call(bench, to: "dave", number: 3, from: other, caller: "c").contains("push invite token-dave"))
    }

    @Test func `the bytes of held requests have a limit, in all and for each`() {
        let bench = registered("bob", "carol") { $0.limits.heldBytes = 3 << 20 }
        var held = 0
        // One user has a mebibyte here, with messages of some 10,000 bytes.
        while call(bench, to: "bob", number: held, body: 10_000).first == "100 invite > pbx" { held += 1 }
        #expect((80...105).contains(held))
        #expect(call(bench, to: "carol", number: 1_000, body: 10_000).first == "100 invite > pbx")
        _ = bench.pass(.seconds(40))
        #expect(call(bench, to: "bob", number: 2_000, body: 10_000).first == "100 invite > pbx")
    }

    @Test func `pushes are counted for whoever is at an address, and From does not count`() {
        let bench = registered("bob") {
            $0.call.pushesPerCaller = 2
            $0.call.pushesPerDevice = 0
        }
        let caller = Endpoint(IPAddress(v4: 0xc633_6401), 5060)
        for number in 0..<2 {
            #expect(call(bench, to: "bob", number: number, from: caller, caller: "a\(number)").count == 2)
        }
        #expect(call(bench, to: "bob", number: 2, from: caller, caller: "new") == ["100 invite > \(caller)"])
        // The PBX answers for its callers itself.
        for number in 3..<6 { #expect(call(bench, to: "bob", number: number).count == 2) }
    }

    @Test func `all phones of a user that wake at once are served`() {
        let bench = EngineBench { $0.registrar.maxContacts = 11 }
        var first: [ProxyAction] = []
        for number in 0..<11 {
            first += bench.receive(
                bench.registerText(
                    token: "t\(number)", callID: "r\(number)",
                    from: Endpoint(IPAddress(v4: 0xc000_0210), UInt16(4000 + number))),
                from: Endpoint(IPAddress(v4: 0xc000_0210), UInt16(4000 + number)))
        }
        var answers: [String] = []
        while !first.isEmpty {
            first = bench.commitAll(in: first)
            answers += story(first).filter { $0 != "commit" }
        }
        #expect(answers.count == 11 && answers.allSatisfy { $0.hasPrefix("200 register") })
    }

    // MARK: Users who have shown their password

    private static let places = (0..<4).map { Endpoint(IPAddress(v4: 0xc633_6401 + UInt32($0)), 5060) }

    /// With passwords, and no PBX in between; everybody called has a phone that sleeps.
    private func proving(_ change: @escaping (inout ProxySettings) -> Void) -> EngineBench {
        let bench = EngineBench.authenticating(users: TestDigest.users("bob", "eve", "carol", "dave", "frank")) {
            $0.upstream = nil
            $0.call.pushesPerDevice = 0
            change(&$0)
        }
        for (index, user) in ["carol", "dave", "frank"].enumerated() {
            bench.receiveProvedRegister(
                as: user, token: "token-\(user)", from: Endpoint(IPAddress(v4: 0xc000_0230), UInt16(4000 + index)))
        }
        return bench
    }

    /// A call of a user who shows the password, from wherever and with whatever else From says.
    private func call(
        _ bench: EngineBench, as user: String, to callee: String, number: Int, from place: Int = 0,
        shown: String? = nil, body: Int = 0
    ) -> [String] {
        let text = bench.phoneText(
            to: "sip:\(callee)@example.net", from: shown ?? "sip:\(user)@example.net", callID: "\(user)\(number)",
            extra: body > 0 ? ["Subject: \(String(repeating: "x", count: body))"] : [])
        return story(bench.receiveProved(text, as: user, from: Self.places[place]))
    }

    @Test func `one user leaves room for others, wherever the user calls from`() {
        let bench = proving { $0.limits.callsPerAccount = 2 }
        #expect(call(bench, as: "bob", to: "carol", number: 0).last == "push invite token-carol")
        #expect(call(bench, as: "bob", to: "dave", number: 1, from: 1).last == "push invite token-dave")
        let anonymous = "sip:anonymous@anonymous.invalid"
        for (place, shown) in [(0, nil), (2, nil), (3, anonymous)] {
            #expect(
                call(bench, as: "bob", to: "frank", number: 2 + place, from: place, shown: shown)
                    == ["503 invite > \(Self.places[place])"])
        }
        // Another user at the very address that bob called from.
        #expect(call(bench, as: "eve", to: "frank", number: 0).last == "push invite token-frank")
    }

    @Test func `what one user holds in bytes leaves room for others`() {
        let bench = proving { $0.limits.heldBytes = 3 << 20 }
        var held = 0
        // To three users by turns, so that it is the caller's share that is full, a mebibyte here.
        while call(
            bench, as: "bob", to: ["carol", "dave", "frank"][held % 3], number: held, from: held % 4, body: 10_000
        ).first?.hasPrefix("100") == true { held += 1 }
        #expect((80...105).contains(held))
        #expect(call(bench, as: "bob", to: "carol", number: 1000, body: 10_000).first?.hasPrefix("503") == true)
        #expect(call(bench, as: "eve", to: "carol", number: 0, body: 10_000).first?.hasPrefix("100") == true)
    }

    @Test func `pushes are counted for the user who is proved, from all addresses together`() {
        let bench = proving { $0.call.pushesPerCaller = 2 }
        for number in 0..<2 {
            #expect(call(bench, as: "bob", to: "carol", number: number, from: number).last == "push invite token-carol")
        }
        #expect(call(bench, as: "bob", to: "dave", number: 2, from: 2).last == "100 invite > \(Self.places[2])")
        #expect(call(bench, as: "eve", to: "dave", number: 0, from: 2).last == "push invite token-dave")
    }
}
