import Addressing
@testable import Calling
import Routing
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

/// Tests the transaction layer alone, without the engine.
@Suite("Transactions and their unsettled results")
struct TransactionLayerTests {
    private func layer() -> TransactionLayer {
        TransactionLayer(branchKey: BranchKey(1, 2), ringLimit: .seconds(180), tagKey: 3)
    }

    private func client(_ number: UInt64) -> ClientTransactionID { ClientTransactionID(rawValue: number) }

    /// Takes the unsettled results of the transaction layer, and returns them as text.
    private func settle(_ layer: inout TransactionLayer) -> [String] {
        var words: [String] = []
        while case .output(let output)? = layer.unsettled.takeNext() {
            switch output {
            case .send(let bytes, _): words.append("send \(bytes)")
            case .clientEnded(let client): words.append("ended \(client.rawValue)")
            case .clientTimedOut(let client): words.append("timeout \(client.rawValue)")
            default: words.append("other")
            }
        }
        return words
    }

    @Test func `bytes leave at once and in their order, and other results wait in theirs`() {
        var layer = layer()
        var sent: [String] = []
        for first: UInt8 in [1, 5] {
            layer.change(
                { _, out in
                    out.append(.clientTimedOut(client(UInt64(first))))
                    out.append(.send([first], on: MachineScene.pbx))
                    out.append(.clientEnded(client(UInt64(first))))
                    out.append(.send([first + 1], on: MachineScene.phone))
                },
                sending: { bytes, flow in sent.append("\(bytes) > \(flow == MachineScene.pbx ? "pbx" : "phone")") })
        }
        #expect(sent == ["[1] > pbx", "[2] > phone", "[5] > pbx", "[6] > phone"])
        #expect(settle(&layer) == ["timeout 1", "ended 1", "timeout 5", "ended 5"])
        #expect(settle(&layer) == [])
    }

    @Test func `a result that follows from another is taken after those before it`() {
        var layer = layer()
        for number: UInt64 in 1...2 {
            layer.change({ _, out in out.append(.clientEnded(client(number))) }, sending: { _, _ in })
        }
        guard case .output(.clientEnded(client(1)))? = layer.unsettled.takeNext() else {
            Issue.record("the first result is the first to be taken")
            return
        }
        layer.change({ _, out in out.append(.clientEnded(client(3))) }, sending: { _, _ in })
        #expect(settle(&layer) == ["ended 2", "ended 3"])
    }

    @Test func `a request is new until its transaction begins, and a copy of it is absorbed then`() throws {
        var layer = layer()
        let invite = try MachineScene.invite()
        guard case .new(let key, nil) = layer.requestReceived(invite.request, beginningOn: nil, now: .distantPast)
        else {
            Issue.record("no transaction has begun")
            return
        }
        let server = layer.begin(
            key, for: invite.request, cancelling: nil, respondOn: MachineScene.pbx, now: .distantPast)
        #expect(server != nil)
        #expect(layer.requestReceived(invite.request, beginningOn: MachineScene.pbx, now: .distantPast) == .absorbed)
    }

    @Test func `a request may begin its transaction as soon as it is found to be new`() throws {
        var layer = layer()
        let invite = try MachineScene.invite()
        let match = layer.requestReceived(invite.request, beginningOn: MachineScene.pbx, now: .distantPast)
        guard case .new(_, _?) = match else {
            Issue.record("the request is new, and its transaction has begun")
            return
        }
        let again = layer.requestReceived(invite.request, beginningOn: MachineScene.pbx, now: .distantPast)
        #expect(again == .absorbed)
    }

    @Test func `two tags of our own are different`() {
        var layer = layer()
        let (first, second) = ("\(layer.tags.next())", "\(layer.tags.next())")
        #expect(first != second)
    }
}
