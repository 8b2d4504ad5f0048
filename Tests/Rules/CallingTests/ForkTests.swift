@testable import Calling
import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Testing

@Suite("Response context (RFC 3261 section 16.7)")
struct ForkTests {
    private static let first = ClientTransactionID(rawValue: 1)
    private static let second = ClientTransactionID(rawValue: 2)
    private static let flow = Flow(
        transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0x7f00_0001), 5060))

    /// Makes a fork whose branches have no device, and whose requests were all sent.
    private static func sent(_ clients: ClientTransactionID..., isInvite: Bool = true) -> Fork {
        var fork = Fork(isInvite: isInvite, branches: clients.map { _ in ForkBranch(device: nil) })
        for (branch, client) in clients.enumerated() { fork.sent(branch, as: client, on: flow) }
        return fork
    }

    /// Makes a fork whose only branch waits for its device.
    private static func waiting() -> Fork {
        var fork = Fork(isInvite: true, branches: [ForkBranch(device: DeviceID(rawValue: 3))])
        fork.waits(0)
        return fork
    }

    /// Makes a fork with two branches whose requests were sent, and one branch that waits for device 3.
    private func fork(isInvite: Bool = true) -> Fork {
        var fork = Fork(isInvite: isInvite, branches: (1...3).map { ForkBranch(device: DeviceID(rawValue: $0)) })
        for (branch, client) in [Self.first, Self.second].enumerated() { fork.sent(branch, as: client, on: Self.flow) }
        fork.waits(2)
        return fork
    }

    private let via: Via
    private let to: NameAddress

    init() throws {
        via = try #require(Via(ByteString("SIP/2.0/UDP h")))
        to = try #require(NameAddress(ByteString("<sip:b>")))
    }

    private func response(_ status: Status) -> SIPResponse {
        SIPResponse(
            frame: MessageFrame(bytes: ByteString("x"), fields: HeaderFields([]), headersStart: 1, bodyStart: 1),
            status: status,
            via: via, viaCount: 2, to: to,
            callID: ByteString("c"),
            cseq: CSeq(number: 1, method: .invite))
    }

    private func text(_ orders: [Fork.Order]) -> [String] {
        orders.map { order in
            switch order {
            case .relay(let response): "relay \(response.status)"
            case .relayChallenge(let response, let others):
                "relay \(response.status) with \(others.map { "\($0.status)" }.joined(separator: ","))"
            case .respond(let status): "respond \(status)"
            case .respondInstead(of: let response, let status): "respond \(status) for \(response.status)"
            case .giveUp: "give up"
            case .cancel(let client, let reason): "cancel \(client.rawValue) \(reason)"
            case .stopWaiting(let branch): "drop \(branch)"
            case .forward: "forward"
            case .startNextGroup: "next group"
            case .hangUp(let response, let branch, _): "hang up \(branch) after \(response.status)"
            }
        }
    }

    @Test func `the first 2xx is relayed, the others are cancelled and sleepers dropped`() {
        var fork = fork()
        let orders = fork.successReceived(response(200), on: 0)
        #expect(text(orders) == ["relay 200", "cancel 2 answeredElsewhere", "drop 2"])
        #expect(fork.phase == .answered)
        #expect(!fork.acceptsBranches)
    }

    @Test func `a second 2xx is forwarded after the first, and a retransmitted one is forwarded again after the end`() {
        var fork = fork()
        _ = fork.successReceived(response(200), on: 0)
        #expect(text(fork.successReceived(response(200), on: 1)) == ["relay 200"])
        #expect(fork.phase == .ended)
        #expect(text(fork.successReceived(response(200), on: 0)) == ["relay 200"])
        #expect(fork.phase == .ended)
    }

    @Test func `the best failure is sent upstream when the last branch ends`() {
        var fork = fork()
        #expect(text(fork.failed(0, with: 503, response: response(503))).isEmpty)
        #expect(text(fork.failed(1, with: 486, response: response(486))).isEmpty)
        #expect(text(fork.deadlineReached()) == ["drop 2", "relay 486"])
    }

    @Test(arguments: [
        ([401, 407, 486], "relay 401 with 407"), ([486, 407, 401], "relay 407 with 401"),
        ([401, 486, 480], "relay 401"), ([407, 401, 603], "relay 603"),
    ])
    func `challenges go up together`(answers: [UInt16], order: String) {
        var fork = Self.sent(Self.first, Self.second, ClientTransactionID(rawValue: 3))
        var orders: [String] = []
        for (branch, code) in answers.enumerated() {
            orders = text(fork.failed(branch, with: Status(code: code), response: response(Status(code: code))))
        }
        #expect(orders == [order])
    }

    /// Makes a fork whose first branch was sent, and whose other two branches have not had their turn.
    private static func delayed() -> Fork {
        var fork = Fork(isInvite: true, branches: (1...3).map { ForkBranch(device: DeviceID(rawValue: $0)) })
        fork.sent(0, as: first, on: flow)
        fork.delays(1)
        fork.delays(2)
        return fork
    }

    @Test func `the next group is wanted when all devices that ring have failed, and not before`() {
        var fork = Self.delayed()
        #expect(!fork.isReadyForNextGroup && fork.delayedBranch(of: DeviceID(rawValue: 2)) == 1)
        #expect(text(fork.failed(0, with: 486, response: response(486))) == ["next group"])
        #expect(fork.isReadyForNextGroup && fork.phase == .proceeding)
        fork.turnCame(1)
        fork.sent(1, as: Self.second, on: Self.flow)
        #expect(!fork.isReadyForNextGroup)
        fork.turnCame(2)
        fork.waits(2)
        #expect(text(fork.failed(1, with: 480, response: response(480))).isEmpty)
        #expect(text(fork.deadlineReached()) == ["drop 2", "relay 486"])
    }

    @Test func `an answer, a 6xx, a CANCEL and an operator end devices that have not had their turn`() {
        var answered = Self.delayed()
        #expect(text(answered.successReceived(response(200), on: 0)) == ["relay 200"])
        #expect(answered.phase == .ended)
        var declined = Self.delayed()
        #expect(text(declined.failed(0, with: 603, response: response(603))) == ["relay 603"])
        var cancelled = Self.delayed()
        #expect(text(cancelled.cancelReceived()) == ["cancel 1 callerCancelled"])
        #expect(text(cancelled.failed(0, with: 487, response: response(487))) == ["respond 487"])
        #expect(cancelled.branches[1].end == .cancelled(.callerCancelled))
        var ended = Self.delayed()
        #expect(text(ended.endedByOperator(with: 480)) == ["respond 480", "cancel 1 endedByOperator(480)"])
    }

    @Test func `a call whose devices all have no turn ends, or is forwarded`() {
        var fork = Fork(isInvite: true, branches: [ForkBranch(device: DeviceID(rawValue: 1))])
        fork.delays(0)
        var forwarded = fork
        #expect(text(fork.endDelays()) == ["respond 480"])
        #expect(fork.foundNobody && fork.phase == .ended)
        forwarded.allowsForward(true)
        #expect(text(forwarded.endDelays()) == ["forward"])
    }

    @Test func `a call is not forwarded while a device has not had its turn`() {
        var fork = Self.waiting()
        fork.allowsForward(true)
        #expect(fork.forwardsNow)
        _ = fork.added(DeviceID(rawValue: 4))
        fork.delays(1)
        #expect(!fork.forwardsNow)
        #expect(fork.forwardsAtDeadline)
        #expect(text(fork.deadlineReached()) == ["forward"])
        // The call still waits for the first device, and no longer for the delayed device.
        #expect(fork.isWaiting && !fork.branches[1].isDelayed && fork.branches[1].isEnded)
        #expect(text(fork.forwardImpossible()) == ["drop 0", "respond 480"])
    }

    @Test func `an operator's status is sent upstream before the phones are cancelled, and nothing follows it`() {
        var fork = fork()
        let orders = fork.endedByOperator(with: 486)
        #expect(
            text(orders) == ["respond 486", "cancel 1 endedByOperator(486)", "cancel 2 endedByOperator(486)", "drop 2"])
        #expect(text(fork.failed(0, with: 487, response: response(487))).isEmpty)
        #expect(text(fork.successReceived(response(200), on: 1, from: Self.second)) == ["hang up 1 after 200"])
        #expect(fork.phase == .ended && !fork.isAnswered)
    }

    @Test func `a silent device is waited for, and its late answer gets the call`() {
        var fork = Self.sent(Self.first)
        fork.fellSilent(0)
        #expect(fork.isWaiting && fork.branches[0].client == Self.first)
        fork.heard(0, Self.second)
        #expect(fork.isWaiting)
        fork.heard(0, Self.first)
        #expect(!fork.isWaiting)
        #expect(text(fork.provisionalReceived(response(180), on: 0)) == ["relay 180"])
    }

    @Test(arguments: ["deadline", "caller", "gone"])
    func `a silent device's request is cancelled when its branch ends`(cause: String) {
        var fork = Self.sent(Self.first)
        fork.fellSilent(0)
        let orders =
            switch cause {
            case "deadline": fork.deadlineReached()
            case "caller": fork.cancelReceived()
            default: fork.failed(0, with: .temporarilyUnavailable, response: nil)
            }
        #expect(text(orders).contains { $0.hasPrefix("cancel 1 ") }, "\(text(orders))")
        #expect(fork.phase == .ended)
        // A phone's 2xx that arrives after the daemon has sent the CANCEL still connects the call.
        #expect(text(fork.successReceived(response(200), on: 0, from: Self.first)) == ["relay 200"])
    }

    @Test func `no phone woke up: 480`() {
        var fork = Self.waiting()
        #expect(text(fork.deadlineReached()) == ["drop 0", "respond 480"])
        #expect(fork.phase == .ended)
    }

    @Test func `a single 503 is sent upstream as 500`() {
        var fork = Self.sent(Self.first)
        #expect(text(fork.failed(0, with: 503, response: response(503))) == ["respond 500 for 503"])
    }

    @Test func `6xx ends the call for all, and is sent upstream when the cancelled branches are over`() {
        var fork = fork()
        let orders = fork.failed(0, with: 603, response: response(603))
        #expect(text(orders) == ["cancel 2 declinedElsewhere(603)", "drop 2"])
        #expect(!fork.acceptsBranches)
        #expect(text(fork.failed(1, with: 487, response: response(487))) == ["relay 603"])
    }

    @Test func `a 2xx that crosses a 6xx is still sent upstream`() {
        var fork = fork()
        _ = fork.failed(0, with: 603, response: response(603))
        #expect(text(fork.successReceived(response(200), on: 1)) == ["relay 200"])
        #expect(fork.wasAnswered)
    }

    @Test func `the caller's CANCEL ends sleepers at once and waits for the others`() {
        var fork = fork()
        #expect(text(fork.cancelReceived()) == ["cancel 1 callerCancelled", "cancel 2 callerCancelled", "drop 2"])
        #expect(text(fork.failed(0, with: 487, response: response(487))).isEmpty)
        #expect(text(fork.failed(1, with: 486, response: response(486))) == ["respond 487"])
    }

    @Test func `a CANCEL while all phones sleep gets 487 at once`() {
        var fork = Self.waiting()
        #expect(text(fork.cancelReceived()) == ["drop 0", "respond 487"])
    }

    @Test func `provisional responses go up until the final one did`() {
        var fork = fork()
        #expect(text(fork.provisionalReceived(response(180), on: 0)) == ["relay 180"])
        _ = fork.cancelReceived()
        #expect(text(fork.provisionalReceived(response(180), on: 1)).isEmpty)
    }

    @Test func `a device knows of the call once it answered 180 or more, but not by 408 or 503`() {
        var fork = fork()
        _ = fork.failed(0, with: 503, response: response(503))
        _ = fork.provisionalReceived(response(183), on: 1)
        #expect(fork.branches.map(\.deviceKnows) == [false, true, false])
    }

    /// The memory for a branch must stay small, because a hundred thousand calls may wait at the same time.
    @Test func `a branch does not get larger`() {
        #expect(MemoryLayout<ForkBranch>.size <= 56)
    }

    @Test func `an ended branch is not started again by the answer to a cancelled request`() {
        var fork = fork()
        fork.recalled(0)
        fork.sent(0, as: ClientTransactionID(rawValue: 9), on: Self.flow)
        #expect(fork.loopReported(on: 0) == .takeBack(Self.first))
        _ = fork.failed(0, with: .requestTimeout, response: nil)
        #expect(!fork.takenBack(0, Self.first) && fork.branches[0].end == .gaveUp(.requestTimeout))
    }

    @Test func `each ended branch has its reason`() {
        for cause in ["answer", "cancel", "6xx"] {
            var fork = fork()
            switch cause {
            case "answer": _ = fork.successReceived(response(200), on: 0, from: Self.first)
            case "cancel": _ = fork.cancelReceived()
            default: _ = fork.failed(0, with: 603, response: response(603))
            }
            #expect(fork.branches.map { $0.end == nil } == [false, false, false], "\(cause)")
            _ = fork.failed(1, with: 487, response: response(487))
            guard case .cancelled? = fork.branches[1].end else {
                Issue.record("\(cause)")
                continue
            }
        }
    }

    @Test func `a request other than INVITE without an answer gets no 408`() {
        var fork = Self.sent(Self.first, isInvite: false)
        #expect(text(fork.silenced(0)) == ["give up"])
    }

    // MARK: A forward

    /// Makes a fork that waits for two phones, and then tries a forwarding target.
    private func forwarding() -> Fork {
        var fork = Fork(isInvite: true, branches: (1...2).map { ForkBranch(device: DeviceID(rawValue: $0)) })
        for branch in 0...1 { fork.waits(branch) }
        fork.allowsForward(true)
        return fork
    }

    private func forwarded() -> Fork {
        var fork = forwarding()
        #expect(text(fork.deadlineReached()) == ["forward"])
        let branch = fork.forwarded()
        fork.sent(branch, as: Self.first, on: Self.flow)
        return fork
    }

    @Test func `phones are waited for until a forward rings, and then given up`() {
        var fork = forwarded()
        #expect(fork.isWaiting && fork.isForwardPending && fork.phase == .proceeding)
        #expect(text(fork.provisionalReceived(response(180), on: 2)) == ["drop 0", "drop 1", "relay 180"])
        #expect(!fork.isWaiting && !fork.isForwardPending)
        #expect(text(fork.successReceived(response(200), on: 2, from: Self.first)) == ["relay 200"])
        // The call counts as missed for the called user, although the forwarding target answered.
        #expect(fork.phase == .ended && fork.wasForwarded && fork.wasAnswered && !fork.isAnswered)
    }

    @Test func `a forward that answers at once gives the phones up, and nobody hears that another phone answered`() {
        var fork = forwarded()
        #expect(
            text(fork.successReceived(response(200), on: 2, from: Self.first)) == ["drop 0", "drop 1", "relay 200"])
        #expect(fork.branches[0].end == .gaveUp(.temporarilyUnavailable))
    }

    @Test(arguments: [Status(404), 486, 500, 603])
    func `what a forward says in refusing is not for the caller`(status: Status) {
        var fork = forwarded()
        #expect(text(fork.failed(2, with: status, response: response(status))) == ["drop 0", "drop 1", "respond 480"])
        #expect(fork.phase == .ended && fork.foundNobody && !fork.wasForwarded)
    }

    @Test func `a phone that comes before the forward rings has the call`() {
        var fork = forwarded()
        #expect(text(fork.forwardWithdrawn()) == ["cancel 1 moved"])
        fork.sent(0, as: Self.second, on: Self.flow)
        #expect(text(fork.provisionalReceived(response(180), on: 2)).isEmpty)
        #expect(text(fork.failed(2, with: 487, response: response(487))).isEmpty)
        #expect(text(fork.successReceived(response(200), on: 0, from: Self.second)) == ["relay 200", "drop 1"])
        #expect(fork.isAnswered && !fork.wasForwarded)
    }

    @Test func `a forward that is silent is given up with the phones, and is tried once`() {
        var fork = forwarded()
        #expect(text(fork.forwardTimedOut()) == ["cancel 1 moved", "drop 0", "drop 1"])
        #expect(text(fork.failed(2, with: 487, response: response(487))) == ["respond 480"])
        #expect(fork.phase == .ended)
        var impossible = forwarding()
        #expect(text(impossible.deadlineReached()) == ["forward"])
        #expect(text(impossible.forwardImpossible()) == ["drop 0", "drop 1", "respond 480"])
    }

    @Test func `a forward follows phones that could not be reached, and none that has refused or rings`() {
        var gone = forwarding()
        #expect(text(gone.failed(0, with: .temporarilyUnavailable, response: nil)).isEmpty)
        #expect(text(gone.failed(1, with: .temporarilyUnavailable, response: nil)) == ["forward"])
        var busy = forwarding()
        busy.sent(0, as: Self.first, on: Self.flow)
        #expect(text(busy.failed(0, with: 486, response: response(486))).isEmpty)
        #expect(text(busy.deadlineReached()) == ["drop 1", "relay 486"])
        var ringing = forwarding()
        ringing.sent(0, as: Self.first, on: Self.flow)
        #expect(text(ringing.deadlineReached()) == ["drop 1"])
        #expect(ringing.phase == .proceeding)
    }

    @Test func `the wait for one phone may end before that for the others`() {
        var fork = forwarding()
        #expect(text(fork.waitIsOver(0)) == ["drop 0"])
        #expect(text(fork.waitIsOver(0)).isEmpty)
        #expect(text(fork.waitIsOver(1)) == ["forward"])
        #expect(fork.branches[1].isWaiting)
    }

    @Test func `the caller cancels a forward like any branch`() {
        var fork = forwarded()
        #expect(text(fork.cancelReceived()) == ["drop 0", "drop 1", "cancel 1 callerCancelled"])
        #expect(text(fork.failed(2, with: 487, response: response(487))) == ["respond 487"])
    }
}
