import Addressing
import Reactor

/// A fresh daemon with everything that it needs: phones, a caller, a push gateway.
final class Workbench {
    let daemon: ServerProcess
    let loop: EventLoop
    let registers: RegisterLoad
    let calls: CallLoad
    private let phones: PhoneSockets
    private let caller: UDPSocket
    private let sink: PushSink
    private let slowSink: PushSink
    private let wait: LoopWait

    /// How long the slow app's provider takes to answer a push.
    static let slowness: Duration = .seconds(5)

    /// Starts the daemon. There may be `callCount` calls, to the users from 0 on. Users who are slow belong to the slow
    /// app. With `wakesPhones`, each phone has a socket of its own, so that each is woken by its own REGISTER.
    init(
        _ options: BenchmarkOptions, calls callCount: Int = 0, wakesPhones: Bool = true, servesAPI: Bool = false,
        servesStreams: Bool = false,
        under tool: Callgrind? = nil, isSlow: @escaping (Int) -> Bool = { _ in false }
    ) throws(BenchmarkError) {
        do {
            loop = try EventLoop()
            caller = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop, datagramLimit: 4096)
        } catch {
            throw BenchmarkError("no loop: \(error)")
        }
        wait = LoopWait(on: loop)
        let hooks = Hooks()
        sink = try PushSink(on: loop) { hooks.calls?.pushed($0) }
        slowSink = try PushSink(on: loop, delay: Self.slowness) { _ in }
        daemon = try ServerProcess(
            daemon: tool?.daemon ?? options.daemon, under: tool, servesAPI: servesAPI,
            servesStreams: servesStreams, caller: caller.local, pushPort: sink.port, slowPort: slowSink.port, on: loop)
        phones = try PhoneSockets(
            daemon: daemon.endpoint, alone: wakesPhones ? callCount : 0, isSlow: isSlow, on: loop
        ) { bytes, socket in
            switch Arrival(bytes) {
            case .response(let status, let branch): hooks.client?.answered(branch: branch, status: status)
            case .request: hooks.calls?.phoneReceived(bytes, at: socket)
            case .unknown: break
            }
        } batchEnded: {
            hooks.calls?.batchEnded()
        }
        let client = try RegisterClient(phones, on: loop)
        registers = RegisterLoad(client, on: loop)
        calls = try CallLoad(
            users: callCount, isSlow: isSlow, daemon: daemon.endpoint, phones: phones, client: client, caller: caller,
            on: loop)
        hooks.client = client
        hooks.calls = calls
    }

    /// The users whose phones have sockets of their own, so that each is woken by its own REGISTER.
    var alone: Range<Int> { 0..<phones.alone }

    /// Asks the kernel to run this thread as soon as an event arrives, although other threads keep the processors busy.
    /// Thus events are measured when they happen.
    func goesFirst() { loop.goFirst() }

    /// Runs the loop for some time without sending anything.
    func pause(_ duration: Duration) throws(BenchmarkError) {
        _ = try wait.wait(atMost: duration) { false }
    }

    /// Starts the simplest program that can replace the daemon.
    func startRelay(_ options: BenchmarkOptions) throws(BenchmarkError) -> ServerProcess {
        try ServerProcess(relay: options.program, pushPort: sink.port, on: loop)
    }

    /// Starts a second daemon with the same settings. It gets reports and connections, but no calls.
    func startTwin(_ options: BenchmarkOptions) throws(BenchmarkError) -> ServerProcess {
        try ServerProcess(
            daemon: options.daemon, servesAPI: true, servesStreams: true, caller: caller.local, pushPort: sink.port,
            slowPort: slowSink.port, on: loop)
    }

    func close() throws(BenchmarkError) {
        try daemon.stop()
        phones.close()
        caller.close()
        sink.close()
        slowSink.close()
    }

    /// The receivers of arrivals. Sockets exist before their receivers, so the receivers are set later.
    private final class Hooks {
        weak var client: RegisterClient?
        weak var calls: CallLoad?
    }
}
