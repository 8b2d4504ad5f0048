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

    private func number(_ output: TransactionOutput?) -> UInt64? {
        if case .clientEnded(let client)? = output { client.rawValue } else { nil }
    }

    @Test func `results are taken in their order, and those that come meanwhile follow`() {
        var unsettled = Unsettled()
        unsettled.outputs = [ended(1), ended(2)]
        #expect(number(unsettled.takeOutput()) == 1)
        unsettled.outputs.append(ended(3))
        #expect(number(unsettled.takeOutput()) == 2)
        #expect(number(unsettled.takeOutput()) == 3)
        let last = unsettled.takeOutput()
        #expect(last == nil && unsettled.outputs.isEmpty)
    }

    @Test func `each result is taken once, also after the list was empty`() {
        var unsettled = Unsettled()
        for round: UInt64 in 1...3 {
            unsettled.outputs.append(ended(round))
            #expect(number(unsettled.takeOutput()) == round)
            #expect(number(unsettled.takeOutput()) == nil)
        }
    }

    @Test func `the bytes of a taken result are not kept`() {
        var unsettled = Unsettled()
        unsettled.outputs = [.send([1, 2, 3], on: MachineScene.pbx), ended(1)]
        guard case .send(let bytes, _)? = unsettled.takeOutput(), case .strayResponse = unsettled.outputs[0] else {
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
        #expect(unsettled.takeDeliveries().map(\.delivery.message) == [7, 5])
        #expect(unsettled.takeDeliveries().isEmpty)
    }
}
