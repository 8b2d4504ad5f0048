package androidx.core.app;

import android.app.Notification;
import android.app.PendingIntent;
import android.content.Context;

public class NotificationCompat {
    public static final String CATEGORY_CALL = "call";

    public abstract static class Style {}

    public static class CallStyle extends Style {
        public static CallStyle forIncomingCall(
                Person person, PendingIntent declineIntent, PendingIntent answerIntent) {
            return null;
        }
    }

    public static class Builder {
        public Builder(Context context, String channelId) {}

        public Builder setSmallIcon(int icon) {
            return this;
        }

        public Builder setCategory(String category) {
            return this;
        }

        public Builder setOngoing(boolean ongoing) {
            return this;
        }

        public Builder setFullScreenIntent(PendingIntent intent, boolean highPriority) {
            return this;
        }

        public Builder setStyle(Style style) {
            return this;
        }

        public Notification build() {
            return null;
        }
    }
}
