import Addressing
import ProxyPolicy
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

@testable import Calling

@Suite("Results that wait to be settled")
struct UnsettledTests {
    private func ended(_ number: UInt64) -> TransactionOutput { .clientEnded(ClientTransactionID(rawValue: number)) }

    private func number(_ work: Unsettled.Work?) -> UInt64? {
        if case .output(.clientEnded(let client))? = work { client.rawValue } else { nil }
    }

    /// Whether nothing is left to take.
    private func isEmpty(_ unsettled: inout Unsettled) -> Bool {
        if case nil = unsettled.takeNext() { true } else { false }
    }

    @Test func `results are taken in their order, and those that come meanwhile follow`() {
        var unsettled = Unsettled()
        unsettled.outputs = [ended(1), ended(2)]
        #expect(number(unsettled.takeNext()) == 1)
        unsettled.outputs.append(ended(3))
        #expect(number(unsettled.takeNext()) == 2)
        #expect(number(unsettled.takeNext()) == 3)
        #expect(isEmpty(&unsettled) && unsettled.outputs.isEmpty)
    }

    @Test func `each result is taken once, also after the list was empty`() {
        var unsettled = Unsettled()
        for round: UInt64 in 1...3 {
            unsettled.outputs.append(ended(round))
            #expect(number(unsettled.takeNext()) == round)
            #expect(number(unsettled.takeNext()) == nil)
        }
    }

    @Test func `the bytes of a taken result are not kept`() {
        var unsettled = Unsettled()
        unsettled.outputs = [.send([1, 2, 3], on: MachineScene.pbx), ended(1)]
        guard case .output(.send(let bytes, _))? = unsettled.takeNext(), case .strayResponse = unsettled.outputs[0]
        else {
            Issue.record("the place of a taken result holds nothing")
            return
        }
        #expect(bytes == [1, 2, 3])
    }

    @Test func `ended deliveries are taken together, in their order, and once`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let call = calls.begin(try MachineScene.invite(), nil, branches: [])
        var unsettled = Unsettled()
        for message: UInt64 in [7, 5] {
            let delivery = MessageDelivery(
                message: message, device: DeviceID(rawValue: 1), triedAt: Instant(nanoseconds: 0))
            unsettled.append(EndedDelivery(delivery, of: call, .giveUp))
        }
        guard case .deliveries(let ended)? = unsettled.takeNext() else {
            Issue.record("the deliveries have ended")
            return
        }
        #expect(ended.map(\.delivery.message) == [7, 5])
        #expect(isEmpty(&unsettled))
    }

    @Test func `outputs come before forwards, and forwards before turns`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let call = calls.begin(try MachineScene.invite(), nil, branches: [])
        var unsettled = Unsettled()
        unsettled.append(turnOf: call)
        unsettled.append(forwardOf: call)
        unsettled.outputs.append(ended(1))
        #expect(number(unsettled.takeNext()) == 1)
        guard case .forwards(let forwards)? = unsettled.takeNext(), case .turns(let turns)? = unsettled.takeNext()
        else {
            Issue.record("the forward and the turn follow the output")
            return
        }
        #expect(forwards.first === call && turns.first === call && isEmpty(&unsettled))
    }
}
