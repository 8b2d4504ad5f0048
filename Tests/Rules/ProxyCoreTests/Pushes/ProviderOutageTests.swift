import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests calls and missed calls during ten minutes without a push provider, on a simulated clock.
@Suite("A provider outage of ten minutes")
struct ProviderOutageTests {
    @Test(arguments: [Provider.refuses, .hangs, .fails])
    fileprivate func `no call and no missed call is lost, and other phones do not wait`(provider: Provider) throws {
        let world = Outage()
        world.provider = provider
        // Every ten seconds, there is one call for a sleeping phone and one for a phone that needs no push.
        for number in 0..<60 {
            // In the middle of the outage, the phones of half of the users register.
            if number == 30 { for user in 0..<5 { world.register(user) } }
            world.call("user\(number % 10)", number)
            world.call("alice", 1000 + number)
            #expect(world.finals[1000 + number]?.status == .busyHere, "a phone that is awake rings at once")
            world.pass(.seconds(10))
        }
        world.pass(.seconds(30))
        for number in 0..<60 {
            let final = try #require(world.finals[number], "call \(number) has no end")
            #expect(final.status == .temporarilyUnavailable)
            #expect(final.after <= .seconds(30))
        }
        #expect(world.told.isEmpty && world.woken.isEmpty)
        // While the circuit breaker is open, it lets one request through every five seconds.
        #expect(10...150 ~= world.requests)

        // When the provider works again, the next call wakes its phone.
        world.provider = .serves
        world.call("user9", 60)
        world.pass(.seconds(12))
        #expect(world.woken == [60])
        world.pass(.seconds(30))
        // Phones that did not register during the outage get their lists of missed calls when they register.
        for user in 5..<10 { world.register(user) }
        world.pass(.seconds(1200))
        let here = (0..<60).filter { $0 % 10 >= 5 || $0 < 30 }
        #expect(here.allSatisfy { world.told[$0] == 1 }, "told of \(world.told.keys.sorted())")
        for user in 0..<5 { world.register(user) }
        world.pass(.seconds(60))
        for number in 0..<60 { #expect(world.told[number] == 1, "call \(number)") }
    }
}

private enum Provider: String, CustomTestStringConvertible {
    /// The simulated push provider refuses connections during the outage.
    case refuses
    /// The imitated push provider accepts requests, and never answers.
    case hangs
    /// The simulated push provider answers 503 after some seconds.
    case fails
    case serves

    var testDescription: String { rawValue }
}

/// An engine, with a provider that the test controls.
private final class Outage {
    var provider = Provider.serves
    /// For each call, the final status that the caller received, and the time from the INVITE to this status.
    private(set) var finals: [Int: (status: Status, after: Duration)] = [:]
    /// For each call, how often the provider accepted a list of missed calls with the call.
    private(set) var told: [Int: Int] = [:]
    /// The calls whose pushes the provider accepted.
    private(set) var woken: [Int] = []
    private(set) var requests = 0

    private let bench = EngineBench()
    private var answers: [(at: Instant, transmission: PushDispatcher.Transmission)] = []
    private var begun: [String: (number: Int, invite: SIPRequest, at: Instant)] = [:]
    private var registers = 0

    private static let alice = Endpoint(IPAddress(v4: 0xc000_02c8), 5060)

    init() {
        for user in 0..<10 { register(user) }
        follow(bench.register(user: "alice", token: nil, callID: "alice", from: Self.alice))
    }

    // MARK: Users

    func register(_ user: Int) {
        registers += 1
        follow(
            bench.register(
                user: "user\(user)", token: "token\(user)", callID: "r\(user)", cseq: registers,
                from: Endpoint(IPAddress(v4: 0xc000_0200 + UInt32(user)), 5060)))
    }

    func call(_ user: String, _ number: Int) {
        let text = SIPText.invite(
            to: user, from: "\(number)", at: EngineBench.pbx, callID: "c\(number)", branch: "b\(number)")
        guard let invite = readRequest(text) else { return }
        begun["c\(number)"] = (number, invite, bench.now.instant)
        follow(bench.receive(text, from: EngineBench.pbx))
    }

    // MARK: The clock

    func pass(_ duration: Duration) {
        let end = bench.now.instant + duration
        repeat {
            let deadlines = [bench.engine.nextDeadline, answers.map(\.at).min()]
            let next = max(bench.now.instant, deadlines.compactMap { $0 }.reduce(end, min))
            follow(bench.pass(next - bench.now.instant))
            let due = answers.filter { $0.at <= next }
            answers.removeAll { $0.at <= next }
            for answer in due { self.answer(answer.transmission) }
        } while bench.now.instant < end
    }

    // MARK: The engine's orders

    private func follow(_ actions: [ProxyAction]) {
        for action in actions {
            switch action {
            case .push(let transmission): send(transmission)
            case .send(let bytes, let flow) where flow.remote == EngineBench.pbx: callerGets(bytes)
            case .send(let bytes, let flow) where flow.remote == Self.alice: aliceGets(bytes)
            default: break
            }
        }
    }

    private func callerGets(_ bytes: [UInt8]) {
        guard let response = SIPText.readResponse(bytes), response.status.isFinal,
            let call = begun[response.callID.string]
        else { return }
        if finals[call.number] == nil { finals[call.number] = (response.status, bench.now.instant - call.at) }
        let to = response.frame.firstValue(of: .to)?.string
        follow(bench.receive(SIPText.hopRequest("ACK", for: call.invite, to: to), from: EngineBench.pbx))
    }

    private func aliceGets(_ bytes: [UInt8]) {
        guard let request = SIPText.readRequest(bytes), request.method == .invite else { return }
        follow(bench.receive(SIPText.response(486, to: request, tag: "a"), from: Self.alice))
    }

    // MARK: The provider

    private func send(_ transmission: PushDispatcher.Transmission) {
        requests += 1
        let time: Instant =
            switch provider {
            case .refuses: bench.now.instant + .milliseconds(1)
            case .hangs: transmission.end
            case .fails: bench.now.instant + .seconds(2)
            case .serves: bench.now.instant + .milliseconds(50)
            }
        answers.append((time, transmission))
    }

    private func answer(_ transmission: PushDispatcher.Transmission) {
        let event: PushDispatcher.Event
        switch provider {
        case .refuses, .hangs: event = .unanswered(transmission, .retry(after: nil), "not there")
        case .fails: event = .answered(transmission, ProviderAnswer(status: 503), after: .seconds(2))
        case .serves:
            taken(transmission.push.message)
            event = .answered(transmission, ProviderAnswer(status: 200), after: .milliseconds(50))
        }
        bench.engine.pushHappened(event, now: bench.now)
        follow(bench.take())
    }

    private func taken(_ message: PushMessage) {
        switch message {
        case .incomingCall(let call):
            if let number = begun[call.callID.string]?.number { woken.append(number) }
        case .missedCalls(let calls):
            for call in calls {
                let name = call.remoteURI.string.replacing("sip:", with: "").prefix { $0 != "@" }
                told[Int(name) ?? -1, default: 0] += 1
            }
        case .silent, .notification: break
        }
    }
}
