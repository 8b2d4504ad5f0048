import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import SIPGrammar
import TestSupport

/// A story of bob's phone: its events in their order, each with the actions that it must cause. In the actions,
/// `invite > 1` means an INVITE to the phone at its address number 1.
typealias PhoneStory = Story<PhoneBench, String>

extension PhoneStory {
    init(
        _ name: String, over transport: Transport = .udp,
        where settings: @escaping @Sendable (inout ProxySettings) -> Void = { _ in }, _ steps: Step...
    ) {
        self.init(name, steps: steps) { PhoneBench(transport, settings) }
    }
}

// MARK: The phone

extension PhoneStory.Step {
    /// The phone sends a REGISTER with a Call-ID that no earlier REGISTER had. The commit and the 200, which must come
    /// first, are not listed among the expected actions.
    static func register(
        at place: Int = 0, token: String? = "tok1", commits: Bool? = nil, _ told: String...
    ) -> Self {
        Self("REGISTER at \(place)", told) { $0.register(at: place, token: token, commits: commits) }
    }

    /// The phone sends a REGISTER with the Call-ID of the push token's last REGISTER, from the same address. By
    /// default, the REGISTER needs no commit.
    static func refresh(
        token: String? = "tok1", expires: Int = 3600, commits: Bool = false, _ told: String...
    ) -> Self {
        Self("refresh", told) { $0.register(token: token, isRefresh: true, expires: expires, commits: commits) }
    }

    static func keepAlive(at place: Int = 0, _ told: String...) -> Self {
        Self("keep-alive at \(place)", told) { $0.keepAlive(at: place) }
    }

    static func closed(at place: Int = 0, _ told: String...) -> Self {
        Self("the connection at \(place) ends", told) { $0.closed(place) }
    }

    static func answer(_ status: Status, to which: PhoneBench.Invite = .last, at place: Int? = nil, _ told: String...)
        -> Self
    {
        Self("\(status) to the \(which) INVITE", told) {
            $0.answer(status, to: which == .first ? $0.invites.first : $0.invites.last, at: place)
        }
    }

    /// The phone registers, gets a push for a call, registers again and gets the INVITE; if `rings` is true, it answers
    /// 180.
    static func called(rings: Bool = true) -> Self {
        Self("called", []) { phone in
            _ = phone.register(at: 0)
            _ = phone.call()
            phone.give(.accepted(nil))
            _ = phone.register(at: 0)
            return rings ? phone.answer(180, to: phone.invites.first) : ["180 invite > pbx"]
        }.including("180 invite > pbx")
    }
}

// MARK: The caller, the provider and the clock

extension PhoneStory.Step {
    static func call(extra: [String] = [], _ told: String...) -> Self { Self("call", told) { $0.call(extra: extra) } }

    /// A call that makes the daemon send a push to the phone.
    static var wakingCall: Self { .call("100 invite > pbx", "push invite tok1") }

    /// A call whose INVITE is sent immediately, because the contact needs no push.
    static var plainCall: Self { .call("100 invite > pbx", "invite > 0") }

    /// The caller cancels the first call.
    static func cancel(reasons: [String] = [], _ told: String...) -> Self {
        Self("CANCEL", told) { $0.cancel(reasons) }
    }

    /// The provider reports the outcome of push number `number`, or of the last push.
    static func push(_ outcome: PushOutcome, number: Int? = nil, _ told: String...) -> Self {
        Self("push \(outcome)", told) { $0.give(outcome, number) }
    }

    /// The provider receives the push, and answers after 80 ms.
    static func provider(_ outcome: PushOutcome, _ told: String...) -> Self {
        Self("provider \(outcome)", told) { $0.provider(outcome) }
    }

    /// The provider receives the push, and has not answered after 80 ms.
    static var slowProvider: Self { Self("slow provider", []) { $0.provider(nil) } }

    /// The provider answers a push that was in flight when the daemon dropped it.
    static func lateProvider(_ outcome: PushOutcome, _ told: String...) -> Self {
        Self("the provider says late \(outcome)", told) { $0.lateProvider(outcome) }
    }

    /// The push service has created the credential for which pushes wait.
    static var credential: Self { Self("credential", []) { $0.makeCredential() } }

    static func pass(_ seconds: Double, _ told: String...) -> Self {
        Self("\(seconds) s", told) { $0.pass(.milliseconds(Int64(seconds * 1000))) }
    }
}

// MARK: Checks

extension PhoneStory.Step {
    /// Expects the given reasons in the last CANCEL that the phone got.
    static func reasons(_ reasons: String...) -> Self {
        Self("reasons", reasons) { phone in
            phone.cancels.last.map { $0.frame.values(of: .reason).map(\.string) } ?? ["no CANCEL"]
        }
    }

    func pushes(_ lines: String...) -> Self { only("push", lines) }

    static func lastInvite(of callID: String) -> Self {
        Self("the last INVITE", [callID]) { [$0.invites.last?.callID.string ?? "none"] }
    }

    /// Expects `count` stored missed calls that devices do not know about yet.
    static func missed(_ count: Int) -> Self {
        Self("missed calls", ["\(count)"]) { ["\($0.bench.engine.buckets.entries(of: EngineBench.bob).count)"] }
    }

    static func devices(_ count: Int) -> Self { Self("devices", ["\(count)"]) { ["\($0.bench.targets.count)"] } }
    static func invites(_ count: Int) -> Self { Self("INVITEs", ["\(count)"]) { ["\($0.invites.count)"] } }
    static func held(_ count: Int) -> Self {
        Self("held calls", ["\(count)"]) { ["\($0.bench.engine.heldCalls.count)"] }
    }

    /// Expects that exactly the given timeline records were completed since the last check.
    static func records(_ words: String...) -> Self { Self("records", words) { $0.takeRecords() } }
}
