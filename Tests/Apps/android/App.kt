// The app's own SIP stack, calls, screen and resources, which docs/App-developers.md does not show.

object Sip {
    fun register(provider: String, param: String, prid: String) {}
    fun wake() {}
}

object Calls {
    fun isOver(id: String) = false
    fun isKnown(id: String) = false
    fun end(id: String) {}
    fun ring(id: String) {}
    fun endUnlessInvited(id: String, seconds: Int) {}
    fun declineIntent(context: android.content.Context, id: String): android.app.PendingIntent = TODO()
    fun answerIntent(context: android.content.Context, id: String): android.app.PendingIntent = TODO()
}

class RingActivity : android.app.Activity()

object R {
    object drawable {
        const val call = 1
    }
}
