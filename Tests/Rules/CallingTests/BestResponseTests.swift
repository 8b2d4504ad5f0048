@testable import Calling
import Addressing
import Bytes
import SIPGrammar
import SIPMessage
import Testing
import TestSupport

@Suite("The best response of a fork (RFC 3261 section 16.7)")
struct BestResponseTests {
    private func order(_ statuses: [UInt16], isInvite: Bool = true) -> Fork.Order {
        var best = BestResponse()
        for status in statuses { best.consider(Status(code: status), nil) }
        return best.order(isInvite: isInvite)
    }

    @Test(
        arguments: [
            ([486, 603, 404], 603), ([503, 486], 486), ([480, 404], 404), ([404, 401], 401), ([302, 404], 302),
            ([500, 408], 408), ([484, 486], 484),
        ] as [([UInt16], UInt16)])
    func `6xx before all others, then the lowest class, and within it the most useful one`(
        statuses: [UInt16], expected: UInt16
    ) {
        for statuses in [statuses, statuses.reversed()] {
            guard case .respond(let status) = order(statuses) else { return #expect(Bool(false), "\(statuses)") }
            #expect(status.code == expected, "\(statuses)")
        }
    }

    @Test func `no response, timeouts, and a 503 of one next hop`() {
        guard case .respond(.requestTimeout) = order([]), case .giveUp = order([], isInvite: false),
            case .giveUp = order([408], isInvite: false), case .respond(.serverError) = order([503])
        else { return #expect(Bool(false)) }
    }

    @Test func `a response of the fork itself comes before those of its branches`() {
        var best = BestResponse()
        best.consider(.busyHere, nil)
        best.decide(.serviceUnavailable)
        #expect(best.status == .serviceUnavailable)
        guard case .respond(.serviceUnavailable) = best.order(isInvite: true) else { return #expect(Bool(false)) }
    }

    @Test func `a caller who has cancelled gets 487`() {
        var best = BestResponse()
        best.consider(.busyHere, nil)
        guard case .respond(.requestTerminated) = best.orderAfterCancel else { return #expect(Bool(false)) }
    }
}
