/// Sole owner of a descriptor that events of a loop refer to. Closes it on the loop, after events that were released
/// before it.
final class LoopDescriptor {
    let number: Int32
    private let loop: EventLoop

    init(_ descriptor: consuming Descriptor, on loop: EventLoop) {
        number = descriptor.release()
        self.loop = loop
    }

    deinit {
        let number = number
        loop.dispose { System.close(number) }
    }
}
