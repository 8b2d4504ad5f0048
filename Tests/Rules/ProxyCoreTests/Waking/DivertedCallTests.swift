import LocationService
import Waking
import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@testable import ProxyCore

/// Tests calls to a device that is known only from a report: such a call rings at a registered contact of its user.
@Suite("Calls that were sent to a contact instead of their device")
struct DivertedCallTests {
    private static let place = Endpoint(IPAddress(v4: 0xc000_0206), 40_001)

    private static func flow(_ number: UInt64) -> Flow {
        Flow(transport: .tcp, listener: 1, connection: number, remote: place)
    }

    /// Makes a call to a reported device, which rings at a registered contact of the same user.
    ///
    /// - Returns: the device id of the contact that registered.
    private func ringing(_ bench: EngineBench, at number: UInt64) throws -> DeviceID {
        bench.engine.deviceReported(
            ReportedDevice(
                token: PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("tok1")), label: .empty),
            of: EngineBench.bob, ReportTicket(1), now: bench.now)
        _ = bench.commitAll(in: bench.take())
        bench.invite()
        return try register(bench, at: number)
    }

    /// Registers a contact over a connection, on which the contact gets the INVITE and rings.
    ///
    /// - Returns: the device id of the contact that registered.
    private func register(_ bench: EngineBench, at number: UInt64) throws -> DeviceID {
        let first = bench.receive(
            bench.registerText(token: nil, callID: "contact\(number)", from: Self.place).replacing(
                "<sip:bob@\(Self.place)>", with: "<sip:bob\(number)@\(Self.place);transport=tcp>"),
            on: Self.flow(number))
        let invite = try #require(sentRequest(bench.commitAll(in: first)))
        #expect(invite.method == .invite)
        bench.receive(SIPText.response(180, to: invite, tag: "c\(number)"), on: Self.flow(number))
        let device = bench.engine.registrar.bindings.device(of: EngineBench.bob) { $0 == Self.flow(number) }
        return try #require(device)
    }

    private func calls(_ bench: EngineBench, of device: DeviceID) -> Int { bench.engine.wakes.calls(of: device).count }

    @Test func `a call that its own device takes over again is not found by the other contact any more`() throws {
        let bench = EngineBench()
        let contact = try ringing(bench, at: 7)
        #expect(calls(bench, of: contact) == 1)
        bench.engine.flowClosed(Self.flow(7), now: bench.now)
        bench.take()
        #expect(story(bench.register()).contains("invite > phone"))
        let own = try #require(bench.targets.first { $0.pushToken != nil }).id
        #expect(calls(bench, of: contact) == 0 && calls(bench, of: own) == 1)
        bench.cancel()
        _ = bench.pass(.seconds(120))
        let isEmpty = bench.engine.wakes.isEmpty
        #expect(isEmpty)
    }

    @Test func `a call that moves to another contact is not found by its former one`() throws {
        let bench = EngineBench()
        let first = try ringing(bench, at: 7)
        bench.engine.flowClosed(Self.flow(7), now: bench.now)
        bench.take()
        let second = try register(bench, at: 8)
        #expect(first != second && calls(bench, of: first) == 0 && calls(bench, of: second) == 1)
        bench.cancel()
        _ = bench.pass(.seconds(120))
        let isEmpty = bench.engine.wakes.isEmpty
        #expect(isEmpty)
    }
}
