import Addressing
import Foundation
import Glibc
import LoopTesting
import Reactor
import ScenarioReplay
import Testing

/// Tests of sockets that another program has opened and passed to this process.
@Suite("Sockets handed over", .timeLimit(.minutes(10)), .serialized)
struct SocketHandoverTests {
    /// Copies the descriptor of a socket to a number that can be the first of the handed-over descriptors.
    private func copy(_ descriptor: Int32) -> Int32 { fcntl(descriptor, F_DUPFD_CLOEXEC, 700) }

    private func environment(_ count: Int, for process: Int32 = getpid(), names: String = "") -> [String: String] {
        ["LISTEN_FDS": "\(count)", "LISTEN_PID": "\(process)", "LISTEN_FDNAMES": names]
    }

    @Test func `a bind to the address gets the socket that was handed over`() async throws {
        try await withLoop { loop in
            try await Bench(loop).run { bench in
                let opened = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: bench.loop)
                let place = opened.local
                let number = try #require(bench.loop.handover.opened.first?.descriptor)
                let first = copy(number)
                bench.loop.handover = SocketHandover(
                    environment: environment(1, names: "sip"), process: getpid(), first: first)
                #expect(bench.loop.handover.unclaimed.map(\.place) == [.datagrams(place)])
                // The loop must use the passed socket, because the socket's port is in use and cannot be bound again.
                let taken = try UDPSocket(boundTo: place, on: bench.loop)
                #expect(taken.local == place)
                #expect(bench.loop.handover.unclaimed.isEmpty)
                // The list `opened` must have only sockets that this process opened itself.
                #expect(bench.loop.handover.opened.isEmpty)
            }
        }
    }

    @Test func `a socket of another kind is not used, and keeps its name`() async throws {
        try await withLoop { loop in
            try await Bench(loop).run { bench in
                // The test uses one port number for UDP and TCP.
                let port = try #require(ReservedPort.any())
                defer { withExtendedLifetime(port) {} }
                let opened = try UDPSocket(boundTo: Endpoint(.loopbackV4, port.number), on: bench.loop)
                let number = try #require(bench.loop.handover.opened.first?.descriptor)
                let first = copy(number)
                bench.loop.handover = SocketHandover(
                    environment: environment(1, names: "stray"), process: getpid(), first: first)
                let listener = try StreamListener(boundTo: opened.local, on: bench.loop, limit: 1) { _ in }
                #expect(listener.local == opened.local)
                let left = try #require(bench.loop.handover.unclaimed.first)
                #expect(left.name == "stray" && !left.isOwn)
            }
        }
    }

    @Test func `variables for another process are ignored`() {
        #expect(SocketHandover(environment: environment(3, for: 1), process: getpid()).unclaimed.isEmpty)
        #expect(SocketHandover(environment: ["LISTEN_FDS": "3"], process: getpid()).unclaimed.isEmpty)
        for count in ["-1", "x", "", "99999999999"] {
            let environment = ["LISTEN_FDS": count, "LISTEN_PID": "\(getpid())"]
            #expect(SocketHandover(environment: environment, process: getpid()).unclaimed.isEmpty)
        }
    }

    @Test func `a socket that this program opens has a valid name, and is recognized by it`() async throws {
        try await withLoop { loop in
            try await Bench(loop).run { bench in
                let opened = try UDPSocket(boundTo: Endpoint(IPAddress(high: 0, low: 1), 0), on: bench.loop)
                let socket = try #require(bench.loop.handover.opened.first)
                #expect(socket.name == "sippushd-udp-[__1]_\(opened.local.port)")
                let first = copy(socket.descriptor)
                let handover = SocketHandover(
                    environment: environment(1, names: socket.name), process: getpid(), first: first)
                #expect(handover.unclaimed.first?.isOwn == true)
            }
        }
    }

    @Test func `a manager gets the notifications, and the sockets that are left to it`() throws {
        let path = NSTemporaryDirectory() + "notify-\(UUID().uuidString)"
        let manager = try Listener(at: path)
        let variables = ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "\(getpid())"]
        let service = try #require(ServiceManager(environment: variables, process: getpid()))
        #expect(service.watchdogInterval == .seconds(3))
        service.tell("READY=1", "STATUS=Serving")
        #expect(manager.heard() == "READY=1\nSTATUS=Serving")
        service.keep(manager.number, as: "sippushd-udp-1")
        #expect(manager.heard() == "FDSTORE=1\nFDNAME=sippushd-udp-1\nFDPOLL=0")
        let other = ServiceManager(
            environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"], process: getpid())
        #expect(other?.watchdogInterval == nil)
        for name in ["", "@", "vsock:2:1", "relative"] {
            #expect(ServiceManager(environment: ["NOTIFY_SOCKET": name], process: getpid()) == nil)
        }
    }
}

/// The notification socket of a service manager, which receives the messages of a service (sd_notify).
private final class Listener {
    let number: Int32
    private let path: String

    init(at path: String) throws {
        self.path = path
        number = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: Array(path.utf8)) }
        let (number, size) = (number, socklen_t(MemoryLayout<sockaddr_un>.size))
        let result = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe bind(number, UnsafeRawPointer(pointer).assumingMemoryBound(to: sockaddr.self), size)
        }
        try #require(result == 0)
    }

    deinit {
        close(number)
        unsafe unlink(path)
    }

    func heard() -> String {
        var room = [UInt8](repeating: 0, count: 512)
        let count = unsafe recv(number, &room, room.count, 0)
        return String(decoding: room.prefix(max(0, count)), as: UTF8.self)
    }
}
