@testable import Messaging
import Calling
import ProxyPolicy
import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

@Suite("Requests that wait for phones, without an engine")
struct HeldMessagesTests {
    private let scene = MachineScene()
    private let bob = MachineScene.bob
    private let phone = DeviceID(rawValue: 1)
    private let tablet = DeviceID(rawValue: 2)

    private func request(_ number: UInt64, from sender: String) throws -> SIPRequest {
        try #require(
            SIPText.readRequest(
                SIPText.bytes(
                    [
                        "MESSAGE sip:bob@example.net SIP/2.0",
                        "Via: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bK\(sender)\(number)",
                        "From: <sip:\(sender)@example.net>;tag=f\(number)", "To: <sip:bob@example.net>",
                        "Call-ID: m\(number)", "CSeq: 1 MESSAGE",
                    ], body: "words")))
    }

    private func message(
        _ number: UInt64, from sender: String = "103", to devices: [DeviceID]? = nil
    ) throws -> HeldMessage {
        HeldMessage(
            id: number, aor: bob, try request(number, from: sender), sender: ByteString(sender),
            caller: Caller(hash: number, isTrusted: false), source: MachineScene.pbx,
            server: ServerTransactionID(rawValue: number), recipients: devices ?? [phone], wakes: true,
            mayBeStored: true, expiresAt: scene.now.date + .seconds(3600), holdUntil: scene.now.instant + .seconds(20),
            now: scene.now.date)
    }

    private func delivery() throws -> ProxiedRequest {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        return calls.begin(try MachineScene.invite(), nil, branches: [], purpose: .plain)
    }

    @Test func `a phone gets one after the other, the oldest first`() throws {
        var held = HeldMessages()
        let (first, second) = (try message(1), try message(2))
        held.add(first)
        held.add(second)
        #expect(held.next(for: phone, of: bob, inOrder: true)?.id == 1)
        held.sent(first, to: phone, as: try delivery())
        #expect(held.next(for: phone, of: bob, inOrder: true)?.id == nil)
        #expect(held.delivery(to: phone, of: bob)?.message.id == 1)
        #expect(held.next(for: phone, of: bob, inOrder: false)?.id == 2)
        let wasTriedOften = held.came(back: first, from: phone)
        #expect(!wasTriedOften)
        #expect(held.next(for: phone, of: bob, inOrder: true)?.id == 1)
        held.done(first, with: phone)
        #expect(held.next(for: phone, of: bob, inOrder: true)?.id == 2)
        held.remove(first)
        held.remove(second)
        let isEmpty = held.isEmpty
        #expect(isEmpty)
        #expect(held.bytes == 0)
    }

    @Test func `after eight attempts no other follows`() throws {
        var held = HeldMessages()
        let message = try message(1)
        held.add(message)
        var tries = 0
        repeat {
            held.sent(message, to: phone, as: try delivery())
            tries += 1
        } while !held.came(back: message, from: phone)
        #expect(tries == 8)
    }

    @Test func `a message that waits for a sleeping device is marked, and found by its device`() throws {
        var held = HeldMessages()
        let (waiting, other) = (try message(1), try message(2, to: []))
        held.add(waiting)
        held.add(other)
        held.fellAsleep(phone, of: bob)
        #expect(waiting.hasWaited && !other.hasWaited)
        #expect(held.hasMessage(for: phone, of: bob) == true)
        held.done(waiting, with: phone)
        #expect(held.hasMessage(for: phone, of: bob) == false)
        #expect(held.returned(phone, of: bob, isPush: false) == [])
    }

    @Test func `the same request again gets the same answer, and a request of another sender is a new one`() throws {
        var held = HeldMessages()
        let message = try message(1)
        held.add(message)
        let same = try request(1, from: "103")
        #expect(held.answer(to: same, from: ByteString("103"), for: bob) == .loopDetected)
        let ticket = held.commits(message, as: ByteString("MESSAGE as it is stored"))
        #expect(held.bytes == 23)
        #expect(held.committed(ticket, succeeded: true)?.id == 1)
        #expect(held.committed(ticket, succeeded: true)?.id == nil)
        #expect(held.answer(to: same, from: ByteString("103"), for: bob) == HeldMessages.accepted)
        #expect(held.answer(to: same, from: ByteString("104"), for: bob) == nil)
        #expect(message.row.devices == [phone] && message.row.request == ByteString("MESSAGE as it is stored"))
    }

    @Test func `messages for devices that are gone go to the next one that registers`() throws {
        var held = HeldMessages()
        let message = try message(1)
        held.add(message)
        let ticket = held.commits(message, as: message.request)
        _ = held.committed(ticket, succeeded: true)
        held.done(message, with: phone)
        #expect(message.isForAnybody)
        #expect(held.returned(tablet, of: bob, isPush: false) == [])
        #expect(held.returned(tablet, of: bob, isPush: true) == [.left(1, [tablet])])
        #expect(held.next(for: tablet, of: bob, inOrder: true)?.id == 1)
    }

    @Test func `one sender may use half of a user's room, and all senders together all of it`() throws {
        var held = HeldMessages()
        var settings = ProxySettings()
        settings.messages.maximumCount = 4
        func refusal(from sender: String, _ held: borrowing HeldMessages) -> HeldMessages.Refusal? {
            held.refusal(
                of: 300, from: ByteString(sender), Caller(hash: 9, isTrusted: false), to: bob, replacing: nil, settings)
        }
        for number in 1...2 as ClosedRange<UInt64> { held.add(try message(number)) }
        let (own, other) = (refusal(from: "103", held), refusal(from: "104", held))
        #expect(own == .senderFull && other == nil)
        for number in 3...4 as ClosedRange<UInt64> { held.add(try message(number, from: "104")) }
        let third = refusal(from: "105", held)
        #expect(third == .userFull)
    }
}
