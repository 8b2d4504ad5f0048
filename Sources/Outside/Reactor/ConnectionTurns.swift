import Collections

/// How the connections of a loop share its time with everything else on it under load.
///
/// The start and the end of connections are handled a few at a time, in the turn of connections. If thousands open or
/// close together, other ready events are handled in between.
///
/// Its loop's events hold it, so the events exist only while something waits for them.
final class ConnectionTurns {
    private unowned let loop: EventLoop
    private var work = Queue<() -> Void>()
    private var workEvent: LoopEvent?
    private lazy var workTarget = Target { [unowned self] in goOn() }

    /// Callbacks that gave way, to be called after connections had their turn.
    private var waiting: [() -> Void] = []
    private var served = 0
    /// How many times connections with the usual turn were served since one of the other connections was served.
    private var usualInARow = 0
    private var wayEvent: LoopEvent?
    private lazy var wayTarget = Target { [unowned self] in takeWay() }

    /// How many connections are started or ended before the loop checks for new events.
    static let workInARow = 4
    /// How many times connections are served, at most, before the callbacks that gave way continue, or the connection
    /// must give way.
    private static let servedInARow = 64

    init(of loop: EventLoop) { self.loop = loop }

    private final class Target: LoopEventTarget {
        private let handler: () -> Void

        init(_ handler: @escaping () -> Void) { self.handler = handler }

        func fired(_ cause: Int16) { handler() }
    }

    /// An event of the connections' turn; `nil` if memory is lacking.
    private func event(for target: Target) -> LoopEvent? {
        let event = try? LoopEvent(loop: loop, number: -1, flags: 0, turn: .connections)
        event?.setTarget(target)
        return event
    }

    // MARK: Beginnings and ends

    /// Runs the job after all jobs added before it, and never from within the call.
    func doLater(_ job: @escaping () -> Void) {
        work.append(job)
        guard workEvent == nil else { return }
        // Fails only if memory is lacking; the next job tries again.
        workEvent = event(for: workTarget)
        workEvent?.add(timeout: .zero)
    }

    private func goOn() {
        for _ in 0..<Self.workInARow {
            guard let job = work.popFirst() else { break }
            job()
        }
        // A timeout is found only after the kernel was asked for other ready events.
        if work.isEmpty { workEvent = nil } else { workEvent?.add(timeout: .zero) }
    }

    // MARK: Giving way

    /// Calls the job after all ready connections, or many of them, had their turn.
    func giveWay(_ job: @escaping () -> Void) {
        waiting.append(job)
        guard wayEvent == nil else { return }
        served = 0
        wayEvent = event(for: wayTarget)
        if let wayEvent { wayEvent.activate() } else { takeWay() }
    }

    /// Call after a connection was served in its turn.
    ///
    /// - Returns: whether the connection must give way now: its turn precedes that of the other connections, and only
    ///   its turn was served all the time.
    func mustGiveWay(after turn: LoopTurn) -> Bool {
        switch turn {
        case .usual:
            usualInARow += 1
            guard usualInARow == Self.servedInARow else { return false }
            usualInARow = 0
            return true
        case .connections:
            usualInARow = 0
            guard wayEvent != nil else { return false }
            served += 1
            if served == Self.servedInARow { takeWay() }
            return false
        case .first, .last: return false
        }
    }

    private func takeWay() {
        wayEvent = nil
        let jobs = exchange(&waiting, with: [])
        for job in jobs { job() }
    }
}
