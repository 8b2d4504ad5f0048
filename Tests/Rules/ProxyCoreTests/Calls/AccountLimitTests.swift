import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import Telemetry
import TestSupport
import Testing
import Timekeeping

@Suite("Limits of one account (T11)")
struct AccountLimitTests {
    /// Makes a call: from a phone if `phone` is given, and otherwise from the PBX.
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

    private func registered(_ users: String..., change: (inout ProxySettings) -> Void = { _ in }) -> EngineBench {
        let bench = EngineBench(change)
        for user in users {
            bench.register(user: user, token: "token-\(user)", callID: "r-\(user)")
        }
        return bench
    }

    @Test func `calls to one user leave room for calls to others`() {
        let bench = registered("bob", "carol") { $0.limits.callsPerAccount = 3 }
        for number in 0..<3 {
            #expect(
                call(bench, to: "bob", number: number, caller: "10\(number)")
                    == ["100 invite > pbx", "push invite token-bob"])
        }
        #expect(call(bench, to: "bob", number: 3) == ["486 invite > pbx"])
        #expect(call(bench, to: "carol", number: 4) == ["100 invite > pbx", "push invite token-carol"])
        // After 40 s the held calls have ended, so later calls have room.
        _ = bench.pass(.seconds(40))
        #expect(call(bench, to: "bob", number: 5) == ["100 invite > pbx", "push invite token-bob"])
    }

    @Test func `one caller leaves room for others, with any From`() {
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
        // In this test, the limit of held bytes for one user is a mebibyte, and each INVITE has about 10,000 bytes.
        while call(bench, to: "bob", number: held, caller: "10\(held % 3)", body: 10_000).first == "100 invite > pbx" {
            held += 1
        }
        #expect((80...105).contains(held))
        #expect(call(bench, to: "carol", number: 1_000, body: 10_000).first == "100 invite > pbx")
        _ = bench.pass(.seconds(40))
        #expect(call(bench, to: "bob", number: 2_000, body: 10_000).first == "100 invite > pbx")
    }

    @Test func `pushes are counted by address, and From does not count`() {
        let bench = registered("bob") {
            $0.call.pushesPerCaller = 2
            $0.call.pushesPerDevice = 0
        }
        let caller = Endpoint(IPAddress(v4: 0xc633_6401), 5060)
        for number in 0..<2 {
            #expect(call(bench, to: "bob", number: number, from: caller, caller: "a\(number)").count == 2)
        }
        #expect(call(bench, to: "bob", number: 2, from: caller, caller: "new") == ["100 invite > \(caller)"])
        // The limit for accounts does not apply to calls from the PBX, because the PBX limits its callers itself.
        for number in 3..<6 { #expect(call(bench, to: "bob", number: number).count == 2) }
    }

    // MARK: A caller's share (T32)

    @Test func `calls of one caller leave room for another's to the same user`() {
        let bench = registered("bob") {
            $0.limits.callsPerAccount = 8
            $0.call.pushesPerDevice = 0
        }
        for number in 0..<4 { #expect(call(bench, to: "bob", number: number).first == "100 invite > pbx") }
        #expect(call(bench, to: "bob", number: 4) == ["486 invite > pbx"])
        for number in 5..<9 {
            #expect(call(bench, to: "bob", number: number, caller: "104").first == "100 invite > pbx")
        }
        #expect(call(bench, to: "bob", number: 9, caller: "105") == ["486 invite > pbx"])
    }

    @Test func `the bytes of one caller leave room for another's to the same user`() {
        let bench = registered("bob") {
            $0.limits.heldBytes = 3 << 20
            $0.call.pushesPerDevice = 0
        }
        var held = 0
        while call(bench, to: "bob", number: held, body: 10_000).first == "100 invite > pbx" { held += 1 }
        // The setting `caller-share` allows one caller half of the mebibyte for requests to bob.
        #expect((40...53).contains(held))
        #expect(call(bench, to: "bob", number: 1_000, caller: "104", body: 10_000).first == "100 invite > pbx")
    }

    @Test func `phones together leave a part for the trusted side, of a user's calls and of all`() {
        let bench = registered("bob", "carol", "dave") {
            $0.limits.calls = 16
            $0.limits.callsPerAccount = 12
            $0.call.pushesPerDevice = 0
        }
        func address(_ number: Int) -> Endpoint { Endpoint(IPAddress(v4: 0xc633_6401 + UInt32(number)), 5060) }
        var number = 0
        func calls(to user: String) -> Int {
            var taken = 0
            for _ in 0..<20 {
                number += 1
                let told = call(bench, to: user, number: number, from: address(number))
                if told.first == "100 invite > \(address(number))" { taken += 1 }
            }
            return taken
        }
        #expect(calls(to: "bob") == 9)
        #expect(call(bench, to: "bob", number: 1_000).first == "100 invite > pbx")
        // Calls from phones may use twelve of the sixteen calls of `limits.calls`; four are reserved for the PBX.
        #expect(calls(to: "carol") == 3)
        #expect(calls(to: "dave") == 0)
        for number in 1_001..<1_004 {
            #expect(call(bench, to: "dave", number: number, caller: "\(number)").first == "100 invite > pbx")
        }
        // After 40 s the held calls have ended, so later calls have room.
        _ = bench.pass(.seconds(40))
        #expect(calls(to: "dave") == 9)
    }

    @Test func `a caller has a share of a phone's pushes, and the PBX a part`() {
        let bench = registered("bob")
        let (caller, other) = (Endpoint(IPAddress(v4: 0xc633_6401), 5060), Endpoint(IPAddress(v4: 0xc633_6402), 5060))
        func pushes(_ numbers: Range<Int>, from phone: Endpoint?, caller: String = "103") -> Int {
            numbers.count { number in
                let told = call(bench, to: "bob", number: number, from: phone, caller: caller)
                return told.contains("push invite token-bob")
            }
        }
        #expect(pushes(0..<20, from: caller) == 10)
        #expect(pushes(20..<40, from: other) == 5)
        // Five of the twenty pushes to the device are reserved for callers behind the PBX.
        #expect(pushes(40..<41, from: nil, caller: "700") == 1)
        #expect(pushes(41..<60, from: nil, caller: "701") == 4)
    }

    @Test func `whom the PBX asserts is the caller, and who is anonymous there is the PBX`() {
        let bench = registered("bob")
        func pushes(_ numbers: Range<Int>, from: String, _ extra: [String] = []) -> Int {
            numbers.count { number in
                story(
                    bench.receive(
                        SIPText.invite(
                            to: "bob", from: from, at: EngineBench.pbx, callID: "c\(number)", branch: "c\(number)",
                            extra: extra), from: EngineBench.pbx)
                ).contains("push invite token-bob")
            }
        }
        let asserted = ["P-Asserted-Identity: \"X\" <sip:+4930@PBX.example.net;user=phone>"]
        #expect(pushes(0..<8, from: "103", asserted) + pushes(8..<16, from: "104", asserted) == 10)
        #expect(pushes(20..<26, from: "anonymous") == 6)
    }

    @Test func `calls of one phone leave room for others' records`() {
        let bench = registered("bob") {
            $0.recordsKept = 160
            $0.call.pushesPerDevice = 0
            $0.call.pushesPerCaller = 0
        }
        func leftOut(_ numbers: Range<Int>, from phone: Endpoint) -> UInt64 {
            let before = bench.engine.figures[.timelineDropped]
            for number in numbers { _ = call(bench, to: "bob", number: number, from: phone) }
            return bench.engine.figures[.timelineDropped] - before
        }
        // One phone may use at most a sixteenth of the timeline records.
        #expect(leftOut(0..<30, from: Endpoint(IPAddress(v4: 0xc633_6401), 5060)) == 20)
        #expect(leftOut(30..<40, from: Endpoint(IPAddress(v4: 0xc633_6402), 5060)) == 0)
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

    // MARK: Authenticated users

    private static let places = (0..<4).map { Endpoint(IPAddress(v4: 0xc633_6401 + UInt32($0)), 5060) }

    /// A bench in which phones need passwords and there is no PBX. Each called user has a sleeping phone.
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

    /// Makes a call from a user who authenticates with the right password. The source address of the call may belong to
    /// another user than the From field.
    private func call(
        _ bench: EngineBench, as user: String, to callee: String, number: Int, from place: Int = 0,
        shown: String? = nil, body: Int = 0
    ) -> [String] {
        let text = bench.phoneText(
            to: "sip:\(callee)@example.net", from: shown ?? "sip:\(user)@example.net", callID: "\(user)\(number)",
            extra: body > 0 ? ["Subject: \(String(repeating: "x", count: body))"] : [])
        return story(bench.receiveProved(text, as: user, from: Self.places[place]))
    }

    @Test func `one user leaves room for others, from any address`() {
        let bench = proving { $0.limits.callsPerAccount = 2 }
        #expect(call(bench, as: "bob", to: "carol", number: 0).last == "push invite token-carol")
        #expect(call(bench, as: "bob", to: "dave", number: 1, from: 1).last == "push invite token-dave")
        let anonymous = "sip:anonymous@anonymous.invalid"
        for (place, shown) in [(0, nil), (2, nil), (3, anonymous)] {
            #expect(
                call(bench, as: "bob", to: "frank", number: 2 + place, from: place, shown: shown)
                    == ["503 invite > \(Self.places[place])"])
        }
        // Eve calls from bob's address, and has a limit of her own.
        #expect(call(bench, as: "eve", to: "frank", number: 0).last == "push invite token-frank")
    }

    @Test func `the bytes of one user's calls leave room for others`() {
        let bench = proving { $0.limits.heldBytes = 3 << 20 }
        var held = 0
        // The calls go to three users in turn, so that only the caller's limit (a mebibyte in this test) is used up.
        while call(
            bench, as: "bob", to: ["carol", "dave", "frank"][held % 3], number: held, from: held % 4, body: 10_000
        ).first?.hasPrefix("100") == true { held += 1 }
        #expect((80...105).contains(held))
        #expect(call(bench, as: "bob", to: "carol", number: 1000, body: 10_000).first?.hasPrefix("503") == true)
        #expect(call(bench, as: "eve", to: "carol", number: 0, body: 10_000).first?.hasPrefix("100") == true)
    }

    @Test func `pushes are counted for the user with the password, from all addresses together`() {
        let bench = proving { $0.call.pushesPerCaller = 2 }
        for number in 0..<2 {
            #expect(call(bench, as: "bob", to: "carol", number: number, from: number).last == "push invite token-carol")
        }
        #expect(call(bench, as: "bob", to: "dave", number: 2, from: 2).last == "100 invite > \(Self.places[2])")
        #expect(call(bench, as: "eve", to: "dave", number: 0, from: 2).last == "push invite token-dave")
    }
}
