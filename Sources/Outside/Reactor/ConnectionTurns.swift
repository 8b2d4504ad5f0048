import Collections

/// Under load, divides the time of a loop between connections and all other work.
///
/// A libevent event retains the ``ConnectionTurns``, so each event is created when work arrives and released when no
/// work waits.
final class ConnectionTurns {
    private unowned let loop: EventLoop
    private var work = Queue<() -> Void>()
    private var workEvent: LoopEvent?
    private lazy var workTarget = Target { [unowned self] in goOn() }

    /// The jobs of ``giveWay(_:)``.
    private var waiting: [() -> Void] = []
    private var served = 0
    /// How many connections with the usual priority were served since a connection of lower priority was served.
    private var usualInARow = 0
    private var wayEvent: LoopEvent?
    private lazy var wayTarget = Target { [unowned self] in takeWay() }

    /// The number of connections that are opened or closed before the loop looks for new events.
    static let workInARow = 4
    /// The number of connections that are served before the loop does other work.
    private static let servedInARow = 64

    init(of loop: EventLoop) { self.loop = loop }

    private final class Target: LoopEventTarget {
        private let handler: () -> Void

        init(_ handler: @escaping () -> Void) { self.handler = handler }

        func fired(_ cause: Int16) { handler() }
    }

    /// Creates an event whose priority is that of connections; `nil` if memory is lacking.
    private func event(for target: Target) -> LoopEvent? {
        let event = try? LoopEvent(loop: loop, number: -1, flags: 0, turn: .connections)
        event?.setTarget(target)
        return event
    }

    // MARK: Beginnings and ends

    /// Queues a job that opens or closes a connection; no job runs before ``doLater(_:)`` has returned.
    func doLater(_ job: @escaping () -> Void) {
        work.append(job)
        guard workEvent == nil else { return }
        // If memory for the event is lacking, the next call tries again.
        workEvent = event(for: workTarget)
        workEvent?.add(timeout: .zero)
    }

    private func goOn() {
        for _ in 0..<Self.workInARow {
            guard let job = work.popFirst() else { break }
            job()
        }
        // The timeout is zero, because libevent handles timeouts only after it has asked the kernel for ready events.
        if work.isEmpty { workEvent = nil } else { workEvent?.add(timeout: .zero) }
    }

    // MARK: Giving way

    /// Runs the job when all ready connections, or ``servedInARow`` of them, have been served.
    func giveWay(_ job: @escaping () -> Void) {
        waiting.append(job)
        guard wayEvent == nil else { return }
        served = 0
        wayEvent = event(for: wayTarget)
        if let wayEvent { wayEvent.activate() } else { takeWay() }
    }

    /// Counts one served connection.
    ///
    /// - Returns: whether the loop must now handle other events, after ``servedInARow`` connections of the usual
    ///   priority without one of lower priority.
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
